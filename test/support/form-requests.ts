/**
 * Requests with forms, and checks for files that they leave behind.
 */
import { mkdtempSync, readdirSync, readlinkSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fakeRequest } from './transport.ts';
import { written } from './multipart-reference.ts';
import type { TransportRequest } from '../../src/http/request/request.ts';
import type { WrittenPart } from './multipart-reference.ts';
import type { Scope } from './run.ts';
import type { FakeIncoming } from './transport.ts';

export const MULTIPART = 'multipart/form-data; boundary=b';

/** Returns a request with these parts as its body. Without parts, the test pushes the body. */
export function formRequest(
  parts?: readonly WrittenPart[] | Buffer,
  type: string = MULTIPART,
  headers: readonly string[] = [],
): { req: TransportRequest; incoming: FakeIncoming; end: () => Promise<void> } {
  const body = parts === undefined || Buffer.isBuffer(parts) ? parts : written(parts);
  const { req, incoming } = fakeRequest({
    method: 'POST',
    headers: ['content-type', type, ...headers],
    ...(body === undefined ? {} : { body }),
  });
  const end = async (): Promise<void> => {
    for (const fn of (req.takeAfterwards(undefined, { runLate: () => undefined }) ?? []).toReversed())
      await fn(undefined);
  };
  return { req, incoming, end };
}

/** A folder for the uploads of one test. */
export class UploadFolder {
  readonly path: string;

  constructor(scope: Scope) {
    this.path = mkdtempSync(join(tmpdir(), 'svc-forms-'));
    scope.after(() => rmSync(this.path, { recursive: true, force: true }));
  }

  /** Upload files that still exist: named ones, and unnamed ones that this process has open. */
  get left(): string[] {
    return [...readdirSync(this.path), ...this.open];
  }

  /** Files of this folder that this process has open. Known only on Linux. */
  get open(): string[] {
    if (process.platform !== 'linux') return [];
    return readdirSync('/proc/self/fd')
      .map((descriptor) => {
        try {
          return readlinkSync(`/proc/self/fd/${descriptor}`);
        } catch {
          // the descriptor was closed in between
          return '';
        }
      })
      .filter((path) => path.startsWith(this.path));
  }
}

/** Returns all chunks as one text. */
export async function textOf(chunks: AsyncIterable<Uint8Array>): Promise<string> {
  const all: Uint8Array[] = [];
  for await (const chunk of chunks) all.push(chunk);
  return Buffer.concat(all).toString();
}
