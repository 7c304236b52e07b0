/**
 * A program that writes log lines, for tests of standard error. argv[2] selects how many lines it writes and
 * how it ends.
 */
import { createLogger, flush } from '../../src/observability/log.ts';

const log = createLogger({ format: 'json' });
const padding = 'x'.repeat(1_000);
const how = process.argv[2];

switch (how) {
  case 'exit': // many lines, then process.exit() in the same turn
    for (let index = 0; index < 500; index++) log.info('line', { index, padding });
    process.exit(3);
  case 'exit-listener': // a line from an exit listener that runs after that of the logger
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
  case 'flood': // more lines than the queue and the pipe hold; writes to stdout to show that it still runs
    for (let index = 0; index < 5_000; index++) log.info('line', { index, padding });
    setTimeout(() => {
      process.stdout.write('alive\n');
      process.exit(0);
    }, 50);
    break;
  case 'trickle': // continues to log over several turns
    for (let turn = 0; turn < 20; turn++) {
      for (let index = 0; index < 100; index++) log.info('line', { index, padding });
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
    process.stdout.write('alive\n');
    break;
}
