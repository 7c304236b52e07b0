/**
 * The http.Server behind an application that listens.
 */
import { Server } from 'node:http';

/** Returns the http.Server with which `run` listens. No public name of the package gives access to it. */
export async function serverOf(run: () => Promise<unknown>): Promise<Server> {
  const { listen } = Server.prototype;
  let server: Server | undefined;
  Server.prototype.listen = function (this: Server, ...args: never[]) {
    server = this;
    return Reflect.apply(listen, this, args) as Server;
  } as typeof listen;
  await run();
  Server.prototype.listen = listen;
  return server!;
}
