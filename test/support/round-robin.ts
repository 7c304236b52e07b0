/** A load balancer that passes each request to the next server, whatever the connection or session. */
import { once } from 'node:events';
import http from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Scope } from './run.ts';

/** Returns the URL of a load balancer in front of these servers, which ends with the test. */
export async function roundRobin(scope: Scope, urls: readonly string[]): Promise<string> {
  let count = 0;
  const balancer = http.createServer((request, response) => {
    const { method, headers, url } = request;
    const target = new URL(url!, urls[count++ % urls.length]);
    const forward = http.request(target, { method, headers }, (answer) => {
      response.writeHead(answer.statusCode!, answer.headers);
      response.flushHeaders();
      answer.pipe(response);
    });
    forward.on('error', () => response.destroy());
    response.on('close', () => forward.destroy());
    request.pipe(forward);
  });
  balancer.listen(0, '127.0.0.1');
  await once(balancer, 'listening');
  scope.after(() => {
    balancer.close();
    balancer.closeAllConnections();
  });
  return `http://127.0.0.1:${(balancer.address() as AddressInfo).port}`;
}
