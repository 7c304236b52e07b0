/**
 * Start-up and login of a PostgreSQL connection (PostgreSQL manual §55.2.1, §55.3). Order of the messages:
 *   StartupMessage -> [NegotiateProtocolVersion] -> authentication -> AuthenticationOk
 *                  -> settings, cancellation key -> ReadyForQuery
 *
 * A clear-text password is sent only over TLS with a verified certificate, or to this machine.
 *
 * With SCRAM, the server must prove that it knows the password. If AuthenticationOk arrives before the proof,
 * the connection ends.
 */
import { SvcError } from '../../base/errors.ts';
import { serverEndPoint } from './channel-binding.ts';
import { ProtocolViolation } from '../errors.ts';
import { postgresError } from './errors.ts';
import { shownHost } from './socket.ts';
import { MessageReader, SERVER, type OnMessage } from './messages.ts';
import { MessageWriter, PROTOCOL_3_0, PROTOCOL_3_2 } from './writer.ts';
import { ScramFirst, ScramKeyring, ScramIssue, md5Password, type ChannelBinding } from './scram.ts';
import { ServerLogin } from '../wire/conversation.ts';
import { foreignRefusal, foreignServer } from '../wire/server-probe.ts';
import { isLocalHost } from '../wire/server-url.ts';
import * as read from './messages.ts';
import type { ServerSocket } from '../wire/server-socket.ts';
import type { PostgresConnectionOptions, PostgresHost } from './url.ts';

/**
 * Result of a login: the settings that the server reports, and the process id and key for a CancelRequest.
 */
export interface LoggedIn {
  readonly parameters: Map<string, string>;
  readonly processId: number;
  readonly key: Buffer;
}

/**
 * Start-up parameters with `startup=plain`. PgBouncer accepts them, and keeps them for each client, whatever its
 * settings.
 */
const POOLER_PARAMETERS: Readonly<Record<string, string>> = {
  client_encoding: 'UTF8',
  DateStyle: 'ISO',
  TimeZone: 'UTC',
};
/**
 * Start-up parameters. All of them except application_name determine the form of the values that the server
 * sends.
 */
const OUR_PARAMETERS: Readonly<Record<string, string>> = {
  ...POOLER_PARAMETERS,
  application_name: 'svc',
  IntervalStyle: 'iso_8601',
};
/** Matches the message with which PgBouncer refuses a start-up parameter. */
const UNSUPPORTED = /unsupported startup parameter(?: in options)?: "?([\w.]+)/;
const PROTOCOL_VIOLATION = '08P01';
/** Maximum number of messages from the server during login. A server sends about twenty. */
const MAX_MESSAGES = 500;

/**
 * Cache of SCRAM keys. All connections of this process share it, so the keys of an account are derived only
 * once.
 */
const keys = new ScramKeyring();

interface Message {
  readonly type: number;
  readonly body: Buffer;
}

/** Returns whether a parameter is given, in any case. */
export function hasParameter(parameters: Readonly<Record<string, string>>, name: string): boolean {
  return Object.keys(parameters).some((given) => given.toLowerCase() === name.toLowerCase());
}

export class PostgresLogin extends ServerLogin<Message> {
  readonly reader: MessageReader;
  readonly writer: MessageWriter = new MessageWriter();
  readonly #link: ServerSocket;
  readonly #host: PostgresHost;
  readonly #options: PostgresConnectionOptions;
  readonly #version: number;
  readonly #parameters = new Map<string, string>();
  #isFirst = true;
  #processId = 0;
  #key: Buffer = Buffer.alloc(0);

  constructor(link: ServerSocket, host: PostgresHost, options: PostgresConnectionOptions) {
    super(MAX_MESSAGES);
    this.#link = link;
    this.#host = host;
    this.#options = options;
    // protocol 3.0 is the default, as in libpq, because some poolers and proxies refuse 3.2
    this.#version = options.protocol === '3.2' ? PROTOCOL_3_2 : PROTOCOL_3_0;
    this.reader = new MessageReader((type, bytes, at, end) =>
      this.receive({ type, body: Buffer.from(bytes.subarray(at, end)) }),
    );
  }

  handOver(onMessage: OnMessage): void {
    this.reader.onMessage = onMessage;
    for (const { type, body } of this.inbox.splice(0)) onMessage(type, body, 0, body.length);
  }

  /**
   * Logs in. @throws DatabaseError with the server's SQLSTATE; ConnectionLost when the connection breaks;
   * SvcError `E_DB_CONNECT` for a permanent failure
   */
  async run(): Promise<LoggedIn> {
    const { user, database, parameters, hasPlainStartup } = this.#options;
    this.writer.startUp(this.#version, {
      user,
      database,
      ...(hasPlainStartup ? POOLER_PARAMETERS : OUR_PARAMETERS),
      ...parameters,
    });
    this.#send();
    try {
      await this.guarded(async () => {
        await this.#authenticate();
        await this.#settle();
      });
    } catch (error) {
      throw error instanceof ScramIssue
        ? this.#refusal(`the login by SCRAM failed: ${error.message}`)
        : error;
    }
    return { parameters: this.#parameters, processId: this.#processId, key: this.#key };
  }

  async #authenticate(): Promise<void> {
    const asked = await this.#asked();
    switch (asked.kind) {
      case 'ok':
        if (this.#options.tls.channelBinding === 'require')
          throw this.#refusal(
            'the server requests no password, but channel_binding=require needs a login by SCRAM-SHA-256-PLUS',
          );
        return;
      case 'cleartext':
        return this.#cleartext();
      case 'md5':
        return this.#md5(asked.salt);
      case 'sasl':
        return this.#scram(asked.mechanisms);
      case 'unsupported':
        throw this.#refusal(`the server requests a login by ${asked.what}, which is not supported`);
      default:
        throw new ProtocolViolation(
          'the server sent a message of an authentication method that has not begun',
        );
    }
  }

  async #cleartext(): Promise<void> {
    const password = this.#password('a clear-text password');
    if (this.#link.tls?.authorized !== true && !isLocalHost(this.#host.host)) {
      throw this.#refusal(
        'the server requests a clear-text password, which is sent only over TLS with a verified certificate (sslmode=verify-full), or to a server on this machine',
      );
    }
    this.writer.password(password);
    this.#send();
    await this.#expectOk();
  }

  async #md5(salt: Buffer): Promise<void> {
    this.writer.password(md5Password(this.#options.user, this.#password('an md5 password'), salt));
    this.#send();
    await this.#expectOk();
  }

  async #scram(mechanisms: readonly string[]): Promise<void> {
    const binding = this.#binding(mechanisms);
    if (binding.kind !== 'tls-server-end-point' && this.#options.tls.channelBinding === 'require')
      throw this.#refusal(
        'channel_binding=require needs SCRAM-SHA-256-PLUS, which is not possible: the server does not offer it, or the connection has no TLS',
      );
    const first = new ScramFirst(this.#password('a password for SCRAM', true), binding, keys);
    if (!mechanisms.includes(first.mechanism))
      throw this.#refusal(
        `the server offers the login methods ${mechanisms.join(', ') || '(none)'}, but the client supports only SCRAM-SHA-256`,
      );
    this.writer.saslInitial(first.mechanism, first.message);
    this.#send();
    const final = await first.answer(await this.#data('sasl-continue'));
    this.writer.saslResponse(final.message);
    this.#send();
    // throws if the server does not prove that it knows the password
    final.verify(await this.#data('sasl-final'));
    const asked = await this.#asked();
    if (asked.kind !== 'ok')
      throw new ProtocolViolation(
        'the server sent a message of an authentication method that has already finished',
      );
  }

  /**
   * Returns the channel binding for this login. With the kind `unused`, the server learns that the client
   * supports channel binding (RFC 5802 §6).
   */
  #binding(mechanisms: readonly string[]): ChannelBinding {
    const { tls } = this.#link;
    if (tls === undefined || this.#options.tls.channelBinding === 'disable') return { kind: 'none' };
    const certificate = tls.getPeerCertificate(true) as { raw?: Buffer };
    const digest = certificate.raw === undefined ? undefined : serverEndPoint(certificate.raw);
    if (digest === undefined) return { kind: 'none' };
    return mechanisms.includes('SCRAM-SHA-256-PLUS')
      ? { kind: 'tls-server-end-point', digest }
      : { kind: 'unused' };
  }

  /**
   * Returns the password. Throws if the address has no password, or if channel binding is required and the
   * server requested a method without channel binding.
   */
  #password(what: string, isScram: boolean = false): string {
    const { password, tls } = this.#options;
    if (!isScram && tls.channelBinding === 'require')
      throw this.#refusal(
        `the server requests ${what}, but channel_binding=require needs SCRAM-SHA-256-PLUS`,
      );
    if (password === undefined || password === '')
      throw this.#refusal(
        `the server requests ${what}, but the address has no password for the user "${this.#options.user}"`,
      );
    return password;
  }

  async #expectOk(): Promise<void> {
    if ((await this.#asked()).kind !== 'ok')
      throw new ProtocolViolation('the server requested the password twice');
  }

  async #data(kind: 'sasl-continue' | 'sasl-final'): Promise<string> {
    const asked = await this.#asked();
    if (asked.kind !== kind)
      throw new ScramIssue(
        asked.kind === 'ok'
          ? 'the server reports success, but has not proved that it knows the password'
          : "the server's messages came in the wrong order",
      );
    return (asked as { data: string }).data;
  }

  async #asked(): Promise<read.Authentication> {
    for (;;) {
      const { type, body } = await this.#next();
      if (type === SERVER.authentication) return read.readAuthentication(body, 0, body.length);
      if (type !== SERVER.negotiateVersion)
        throw new ProtocolViolation('the server sent a message that does not belong to a login');
      const { version, unknown } = read.readNegotiation(body, 0, body.length);
      if (version > this.#version || version < PROTOCOL_3_0 || unknown.length > 0)
        throw new ProtocolViolation('the server negotiates a protocol version that was not requested');
    }
  }

  /** Handles the messages that follow AuthenticationOk. */
  async #settle(): Promise<void> {
    for (;;) {
      const { type, body } = await this.#next();
      switch (type) {
        case SERVER.parameterStatus:
          this.#parameters.set(...read.readParameterStatus(body, 0, body.length));
          break;
        case SERVER.backendKeyData:
          ({ processId: this.#processId, key: this.#key } = read.readBackendKey(body, 0, body.length));
          break;
        case SERVER.readyForQuery:
          if (read.readStatus(body, 0, body.length) !== 'I')
            throw new ProtocolViolation('the server reports a transaction that the client did not begin');
          return;
        default:
          throw new ProtocolViolation('the server sent a message that does not belong to a login');
      }
    }
  }

  /** Waits for the next message. Ignores notices, and throws the server's errors. */
  async #next(): Promise<Message> {
    for (;;) {
      const message = this.inbox.shift();
      if (message === undefined) await this.more();
      else if (message.type === SERVER.error)
        throw this.#serverError(read.readErrorFields(message.body, 0, message.body.length));
      else if (message.type !== SERVER.notice) return message;
    }
  }

  /**
   * Ends the login if the first bytes come from a server that is not PostgreSQL. Without this check, the pool
   * would try to connect again until its callers time out.
   */
  override onBytes(chunk: Buffer): void {
    const foreign = this.#isFirst ? foreignServer(chunk, 'PostgreSQL') : undefined;
    this.#isFirst = false;
    if (foreign === undefined) super.onBytes(chunk);
    else this.end(foreignRefusal(shownHost(this.#host), foreign, 'PostgreSQL'));
  }

  #serverError(fields: read.ErrorFields): Error {
    const [, parameter] = UNSUPPORTED.exec(fields.message) ?? [];
    if (fields.sqlstate === PROTOCOL_VIOLATION && parameter !== undefined)
      return this.#refusal(
        `the pooler refuses the start-up parameter "${parameter}": ${this.#remedyFor(parameter)}`,
      );
    const error = postgresError(fields, undefined);
    error.message = `${shownHost(this.#host)} refused the login of "${this.#options.user}" to "${this.#options.database}": ${error.message}`;
    return error;
  }

  #remedyFor(parameter: string): string {
    if (hasParameter(this.#options.parameters, parameter))
      return `remove it from the address, and set it for the account (alter role … set ${parameter} = …)`;
    return this.#options.hasPlainStartup
      ? 'let the pooler accept it, as ignore_startup_parameters of PgBouncer does'
      : 'add startup=plain&statement_cache=0 to the address';
  }

  #refusal(problem: string): SvcError<'E_DB_CONNECT'> {
    return new SvcError('E_DB_CONNECT', [shownHost(this.#host), problem]);
  }

  #send(): void {
    this.#link.socket.write(this.writer.take());
  }
}
