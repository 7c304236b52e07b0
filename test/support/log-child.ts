/**
 * A program that logs, for tests of standard error: argv[2] says how much, and how it ends.
 */
import { createLogger, flush } from '../../src/observability/log.ts';

const log = createLogger({ format: 'json' });
const padding = 'x'.repeat(1_000);
const how = process.argv[2];

switch (how) {
  case 'exit': // many lines, then an exit in the same turn
    for (let index = 0; index < 500; index++) log.info('line', { index, padding });
    process.exit(3);
  case 'exit-listener': // lines from another listener, after ours has run
    log.info('first');
    process.on('exit', () => log.info('last'));
    break;
  case 'natural':
    for (let index = 0; index < 500; index++) log.info('line', { index, padding });
    break;
  case 'throw':
    log.info('before');
    setImmediate(() => {
      log.info('just_before');
      throw new Error('uncaught');
    });
    break;
  case 'kill':
    log.info('before');
    flush();
    process.kill(process.pid, 'SIGKILL');
    break;
  case 'flood': // more than the queue and the pipe hold; says on stdout that it still works
    for (let index = 0; index < 5_000; index++) log.info('line', { index, padding });
    setTimeout(() => {
      process.stdout.write('alive\n');
      process.exit(0);
    }, 50);
    break;
  case 'trickle': // goes on logging and answering
    for (let turn = 0; turn < 20; turn++) {
      for (let index = 0; index < 100; index++) log.info('line', { index, padding });
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
    process.stdout.write('alive\n');
    break;
}
