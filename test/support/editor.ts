/**
 * A program in an editor: completion, hover texts and errors, as the TypeScript compiler computes them. Version 7
 * is the compiler of this repository, driven by the Language Server Protocol. Earlier versions have an API.
 */
import { spawn } from 'node:child_process';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { ROOT } from './build.ts';
import { folder } from './run.ts';
import { scratch } from './scratch.ts';
import type { TestContext } from 'node:test';

/** A mistake that the compiler reports. */
export interface Mistake {
  /** Line of the mistake, from 0. */
  readonly line: number;
  /** Text of the error, with one line for each level. */
  readonly text: string;
}

/** A program that is open in an editor. Offsets count from the start of its text. */
export interface Editor {
  /** Returns the names that completion offers. */
  completions(offset: number): Promise<readonly string[]>;
  /** Returns the documentation of a name that completion offers. */
  documentation(offset: number, name: string): Promise<string>;
  /** Returns the text that appears when the pointer is over a name. */
  hover(offset: number): Promise<string>;
  mistakes(): Promise<readonly Mistake[]>;
}

const OPTIONS = {
  strict: true,
  exactOptionalPropertyTypes: true,
  allowImportingTsExtensions: true,
  noEmit: true,
  skipLibCheck: true,
  types: ['node'],
  typeRoots: [join(ROOT, 'node_modules/@types')],
};

/** Versions of the compiler that open programs. */
export type EditorVersion = '5.9' | '6.0' | '7.0';

/** Opens a program. Returns undefined, and skips the test, if the version cannot be installed. */
export async function openEditor(
  t: TestContext,
  version: EditorVersion,
  text: string,
): Promise<Editor | undefined> {
  if (version === '7.0') return openServer(t, text);
  const installed = scratch(t, `typescript-${version}`, {
    typescript: `~${version}.0`,
    '@types/node': '^24.0.0',
  });
  return installed === undefined
    ? undefined
    : openService(t, join(installed, 'node_modules/typescript'), text);
}

/** The part of the compiler's API up to version 6 that is used here. */
interface Api {
  readonly sys: {
    readFile(name: string): string | undefined;
    fileExists(name: string): boolean;
    directoryExists(name: string): boolean;
    realpath(name: string): string;
  };
  readonly ScriptTarget: { readonly ESNext: number };
  readonly ModuleKind: { readonly NodeNext: number };
  readonly ScriptSnapshot: { fromString(text: string): object };
  getDefaultLibFilePath(options: object): string;
  createLanguageService(host: object): {
    getCompletionsAtPosition(
      file: string,
      at: number,
      options: object,
    ): { readonly entries: readonly { readonly name: string }[] } | undefined;
    getCompletionEntryDetails(
      file: string,
      at: number,
      name: string,
    ): { readonly documentation?: readonly object[] } | undefined;
    getQuickInfoAtPosition(
      file: string,
      at: number,
    ): { readonly displayParts?: readonly object[]; readonly documentation?: readonly object[] } | undefined;
    getSemanticDiagnostics(
      file: string,
    ): readonly { readonly start?: number; readonly messageText: string | object }[];
    dispose(): void;
  };
  displayPartsToString(parts: readonly object[] | undefined): string;
  flattenDiagnosticMessageText(text: string | object, newLine: string): string;
}

function openService(t: TestContext, compiler: string, text: string): Editor {
  const api = createRequire(import.meta.url)(compiler) as Api;
  const file = join(folder(t, { 'app.ts': text }), 'app.ts');
  const options = { ...OPTIONS, target: api.ScriptTarget.ESNext, module: api.ModuleKind.NodeNext };
  const service = api.createLanguageService({
    ...api.sys,
    useCaseSensitiveFileNames: () => true,
    getCompilationSettings: () => options,
    getCurrentDirectory: () => ROOT,
    getDefaultLibFileName: (given: object) => api.getDefaultLibFilePath(given),
    getScriptFileNames: () => [file],
    getScriptVersion: () => '1',
    getScriptSnapshot(name: string) {
      const source = api.sys.readFile(name);
      return source === undefined ? undefined : api.ScriptSnapshot.fromString(source);
    },
  });
  t.after(() => service.dispose());
  return {
    completions: (offset) =>
      Promise.resolve(
        (service.getCompletionsAtPosition(file, offset, {})?.entries ?? []).map(({ name }) => name),
      ),
    documentation: (offset, name) =>
      Promise.resolve(
        api.displayPartsToString(service.getCompletionEntryDetails(file, offset, name)?.documentation),
      ),
    hover: (offset) => {
      const { displayParts, documentation } = service.getQuickInfoAtPosition(file, offset) ?? {};
      return Promise.resolve(
        `${api.displayPartsToString(displayParts)}\n${api.displayPartsToString(documentation)}`,
      );
    },
    mistakes: () =>
      Promise.resolve(
        service.getSemanticDiagnostics(file).map(({ start = 0, messageText }) => ({
          line: text.slice(0, start).split('\n').length - 1,
          text: api.flattenDiagnosticMessageText(messageText, '\n'),
        })),
      ),
  };
}

/** Answers of the language server that are used here. */
interface Answers {
  readonly initialize: object;
  readonly 'textDocument/completion': { readonly items: readonly { readonly label: string }[] } | null;
  readonly 'completionItem/resolve': { readonly documentation?: string | { readonly value: string } };
  readonly 'textDocument/hover': { readonly contents: { readonly value: string } } | null;
  readonly 'textDocument/diagnostic': {
    readonly items: readonly {
      readonly message: string;
      readonly range: { readonly start: { readonly line: number } };
    }[];
  };
}
interface Message {
  readonly id?: number;
  readonly method?: string;
  readonly params?: { readonly items?: readonly unknown[] };
  readonly result?: unknown;
  readonly error?: { readonly message: string };
}

async function openServer(t: TestContext, text: string): Promise<Editor> {
  const cwd = folder(t, {
    'app.ts': text,
    'tsconfig.json': JSON.stringify({
      compilerOptions: { ...OPTIONS, target: 'esnext', module: 'nodenext' },
      files: ['app.ts'],
    }),
  });
  const server = new LanguageServer(await nativeCompiler(), cwd);
  t.after(() => server.close());
  const uri = pathToFileURL(join(cwd, 'app.ts')).href;
  await server.ask('initialize', {
    processId: process.pid,
    rootUri: pathToFileURL(cwd).href,
    capabilities: {
      textDocument: {
        hover: { contentFormat: ['plaintext'] },
        completion: { completionItem: { documentationFormat: ['plaintext'] } },
      },
    },
  });
  server.send({ method: 'initialized', params: {} });
  server.send({
    method: 'textDocument/didOpen',
    params: { textDocument: { uri, languageId: 'typescript', version: 1, text } },
  });
  const textDocument = { uri };
  const at = (offset: number): object => {
    const lines = text.slice(0, offset).split('\n');
    return { textDocument, position: { line: lines.length - 1, character: lines.at(-1)!.length } };
  };
  const items = async (offset: number): Promise<readonly { readonly label: string }[]> =>
    (await server.ask('textDocument/completion', at(offset)))?.items ?? [];
  const nameOf = ({ label }: { readonly label: string }): string => label.replace(/\?$/, '');
  return {
    completions: async (offset) => (await items(offset)).map(nameOf),
    async documentation(offset, name) {
      const item = (await items(offset)).find((each) => nameOf(each) === name);
      const { documentation = '' } = await server.ask('completionItem/resolve', item ?? {});
      return typeof documentation === 'string' ? documentation : documentation.value;
    },
    hover: async (offset) => (await server.ask('textDocument/hover', at(offset)))?.contents.value ?? '',
    mistakes: async () =>
      (await server.ask('textDocument/diagnostic', { textDocument })).items.map(({ message, range }) => ({
        line: range.start.line,
        text: message,
      })),
  };
}

async function nativeCompiler(): Promise<string> {
  const { default: path } = (await import(
    pathToFileURL(join(ROOT, 'node_modules/typescript/lib/getExePath.js')).href
  )) as { readonly default: () => string };
  return path();
}

/** A process that speaks the Language Server Protocol 3.17 on its standard streams. */
class LanguageServer {
  readonly #process;
  readonly #waiting = new Map<number, PromiseWithResolvers<unknown>>();
  #received = Buffer.alloc(0);
  #lastId = 0;

  constructor(command: string, cwd: string) {
    this.#process = spawn(command, ['--lsp', '--stdio'], { cwd, stdio: ['pipe', 'pipe', 'ignore'] });
    this.#process.stdout.on('data', (chunk: Buffer) => this.#read(chunk));
    this.#process.on('close', () => {
      for (const { reject } of this.#waiting.values()) reject(new Error('the language server has ended'));
    });
  }

  /** Sends a request, and returns the result. */
  ask<M extends keyof Answers>(method: M, params: object): Promise<Answers[M]> {
    const waiting = Promise.withResolvers<unknown>();
    this.#waiting.set(++this.#lastId, waiting);
    this.send({ id: this.#lastId, method, params });
    return waiting.promise as Promise<Answers[M]>; // the cast is safe: the protocol defines the results
  }

  send(message: object): void {
    const json = JSON.stringify({ jsonrpc: '2.0', ...message });
    this.#process.stdin.write(`Content-Length: ${Buffer.byteLength(json)}\r\n\r\n${json}`);
  }

  close(): void {
    this.#process.kill();
  }

  #read(chunk: Buffer): void {
    this.#received = Buffer.concat([this.#received, chunk]);
    for (;;) {
      const start = this.#received.indexOf('\r\n\r\n') + 4;
      if (start < 4) return;
      const end =
        start + Number(/Content-Length: (\d+)/i.exec(this.#received.toString('latin1', 0, start))![1]);
      if (this.#received.length < end) return;
      const message = JSON.parse(this.#received.toString('utf8', start, end)) as Message;
      this.#received = this.#received.subarray(end);
      this.#handle(message);
    }
  }

  #handle({ id, method, params, result, error }: Message): void {
    if (id === undefined) return;
    // a question of the server, such as for settings: the defaults are right
    if (method !== undefined) return this.send({ id, result: params?.items?.map(() => null) ?? null });
    const waiting = this.#waiting.get(id);
    this.#waiting.delete(id);
    if (error === undefined) waiting?.resolve(result);
    else waiting?.reject(new Error(error.message));
  }
}
