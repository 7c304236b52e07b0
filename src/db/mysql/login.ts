/**
 * Logs in to MySQL or MariaDB. Order of the packets:
 *   greeting -> [SSLRequest -> TLS] -> response -> [AuthSwitchRequest] -> [AuthMoreData] -> OK
 *
 * The client uses only authentication methods that the address allows. It sends a clear-text password only
 * over TLS with a verified certificate, or to this machine.
 *
 * The client sends an RSA-encrypted password only if the server's key is configured, if the server is on this
 * machine, or with allow_public_key_retrieval=1.
 *
 * A server with a self-signed certificate must prove in the login that the certificate is its own (MariaDB
 * 11.4).
 */
import { randomBytes, timingSafeEqual } from 'node:crypto';
import { SvcError } from '../../base/errors.ts';
import { ConnectionLost, type DatabaseError, ProtocolViolation, QueryTimeout } from '../errors.ts';
import {
  cachingSha2Password,
  certificateProof,
  encryptedPassword,
  nativeHash,
  nativePassword,
  parsecAnswer,
  readParsecSalt,
} from './auth.ts';
import { mysqlError } from './errors.ts';
import { readError, readGreeting, readOk, Fields, type Greeting } from './messages.ts';
import { CAPABILITY, MARIADB, PacketReader, REPLY, wrongSequence, type OnPacket } from './wire.ts';
import { PacketWriter } from './writer.ts';
import { ServerLogin } from '../wire/conversation.ts';
import { foreignRefusal, foreignServer } from '../wire/server-probe.ts';
import { isLocalHost, isUnixHost, type ServerHost } from '../wire/server-url.ts';
import { fileOf, type ServerSocket } from '../wire/server-socket.ts';
import type { AuthPlugin, MySqlConnectionOptions } from './url.ts';

interface LoggedIn {
  readonly greeting: Greeting;
  readonly capabilities: number;
  readonly extended: number;
  readonly status: number;
}

/** Number of the collation utf8mb4_general_ci, which all servers know. */
const UTF8MB4 = 45;
const OUR_MAX_PACKET = 0xff_ffff;
/**
 * Requested capabilities. Two others are never requested: LOCAL_FILES would let a server read any file of the
 * client, and MULTI_STATEMENTS would allow several statements in one text.
 */
const WANTED =
  CAPABILITY.longFlag |
  CAPABILITY.foundRows |
  CAPABILITY.protocol41 |
  CAPABILITY.transactions |
  CAPABILITY.secureConnection |
  CAPABILITY.multiResults |
  CAPABILITY.psMultiResults |
  CAPABILITY.pluginAuth |
  CAPABILITY.connectAttributes |
  CAPABILITY.pluginAuthLenenc |
  CAPABILITY.deprecateEof;
const NEEDED = CAPABILITY.protocol41 | CAPABILITY.secureConnection;
const WANTED_OF_MARIADB = MARIADB.extendedMetadata | MARIADB.cacheMetadata;
/** Maximum number of packets from the server during login. A server sends about ten. */
const MAX_PACKETS = 50;
/** Maximum number of switches to another authentication method. Accounts with two methods switch twice. */
const MAX_SWITCHES = 3;
/** Answers of caching_sha2_password: FAST is a success, FULL asks for the password itself. */
const FAST = 0x03;
const FULL = 0x04;
const ASK_KEY_CACHING = 0x02;
const ASK_KEY_SHA256 = 0x01;
const NONCE_BYTES = 32;
const PROOF_MARK = 0x01;
/** Plugin of MariaDB whose Ed25519 seed is a password of any length; Node.js accepts only 32 bytes. */
const UNSPOKEN = 'client_ed25519';
const NO_SIGNATURE_BYTES = 64;

export class MySqlLogin extends ServerLogin<Buffer> {
  readonly reader: PacketReader;
  readonly #host: ServerHost;
  readonly #shown: string;
  readonly #options: MySqlConnectionOptions;
  readonly #password: string;
  readonly #writer = new PacketWriter();
  #sequence = 0;
  #greeting: Greeting | undefined;
  #link: ServerSocket | undefined;
  #isUnproved = false;
  #plugin: AuthPlugin = 'mysql_native_password';
  #nonce: Buffer = Buffer.alloc(0);
  /** Error to throw if the login fails after the server has requested client_ed25519. */
  #unspoken: SvcError<'E_DB_CONNECT'> | undefined;
  /** Hash of the password as the server stores it, if the authentication method has such a hash. */
  #hash: Buffer | undefined;

  /**
   * `host` tells whether the server is on this machine. `shown` is the name of the server in error messages.
   */
  constructor(host: ServerHost, shown: string, options: MySqlConnectionOptions) {
    super(MAX_PACKETS);
    this.#host = host;
    this.#shown = shown;
    this.#options = options;
    this.#password = options.password ?? '';
    this.reader = new PacketReader((bytes, at, end, sequence) => this.#onPacket(bytes, at, end, sequence));
  }

  /**
   * Waits for the greeting, which is the only packet that the server may send before the client does.
   * @throws DatabaseError if the server sends an error such as 1040 (too many connections); ConnectionLost
   *   when no greeting arrives
   */
  async greet(more: () => Promise<Buffer>): Promise<Greeting> {
    return this.guarded(async () => {
      while (this.inbox.length === 0) {
        const bytes = await this.#greeted(more);
        const foreign = foreignServer(bytes, 'MySQL');
        if (foreign !== undefined) throw foreignRefusal(this.#shown, foreign, 'MySQL');
        this.reader.push(bytes);
      }
      if (this.inbox.length > 1 || this.reader.hasPartial)
        throw new ProtocolViolation('the server sent unexpected data after its greeting');
      const packet = this.inbox.shift()!;
      if (packet[0] === REPLY.error) throw this.#serverError(packet);
      const greeting = (this.#greeting = readGreeting(packet, 0, packet.length));
      if ((greeting.capabilities & NEEDED) !== NEEDED)
        throw new ProtocolViolation(
          'the server is older than MySQL 4.1, the oldest version that can be used',
        );
      return greeting;
    });
  }

  async #greeted(more: () => Promise<Buffer>): Promise<Buffer> {
    try {
      return await more();
    } catch (cause) {
      if (!(cause instanceof QueryTimeout)) throw cause;
      throw new ConnectionLost(
        `${this.#shown} sent no ${this.#options.dialect === 'mysql' ? 'MySQL' : 'MariaDB'} greeting within the time limit: a server of another kind may be at this address, or the server is overloaded`,
        { sqlstate: '08001', cause },
      );
    }
  }

  /** Returns the SSLRequest, the only packet that the client sends before TLS. */
  sslRequest(): Buffer {
    this.#writer.begin(this.#sequence);
    this.#capabilities(this.#agreed() | CAPABILITY.ssl);
    this.#sequence = this.#writer.end();
    return this.#writer.take();
  }

  handOver(onPacket: OnPacket): void {
    this.reader.onPacket = onPacket;
    // the sequence number is 0, because these packets belong to no request
    for (const packet of this.inbox.splice(0)) onPacket(packet, 0, packet.length, 0);
  }

  /**
   * Logs in. `isUnproved` is true when the certificate is self-signed, so that the server must prove that the
   * certificate is its own.
   *
   * @throws DatabaseError with the server's error number; ConnectionLost when the connection breaks; SvcError
   *   `E_DB_CONNECT` for a permanent failure
   */
  async run(link: ServerSocket, isUnproved: boolean): Promise<LoggedIn> {
    this.#link = link;
    this.#isUnproved = isUnproved;
    return this.guarded(async () => {
      const greeting = this.#greeting!;
      this.#respond(greeting);
      const status = await this.#authenticate();
      return { greeting, capabilities: this.#agreed(), extended: this.#agreedExtended(), status };
    });
  }

  #agreed(): number {
    return (
      (WANTED & this.#greeting!.capabilities) |
      (this.#options.database === undefined ? 0 : CAPABILITY.connectWithDb & this.#greeting!.capabilities)
    );
  }

  #agreedExtended(): number {
    return this.#greeting!.extended & WANTED_OF_MARIADB;
  }

  /** Writes the fields with which both SSLRequest and the login response begin. */
  #capabilities(flags: number): void {
    const hasExtended = this.#greeting!.extended !== 0;
    this.#writer.uint32((flags | (hasExtended ? 0 : CAPABILITY.longPassword)) >>> 0);
    this.#writer.uint32(OUR_MAX_PACKET);
    this.#writer.byte(UTF8MB4);
    this.#writer.zeros(19);
    this.#writer.uint32(this.#agreedExtended());
  }

  #respond({ nonce, plugin }: Greeting): void {
    const { user, database, plugins, applicationName } = this.#options;
    const writer = this.#writer;
    const agreed = this.#agreed();
    this.#plugin =
      (plugin === 'caching_sha2_password' || plugin === 'mysql_native_password') && plugins.includes(plugin)
        ? plugin
        : (plugins.find((each) => each === 'mysql_native_password' || each === 'caching_sha2_password') ??
          plugins[0]!);
    this.#nonce = nonce;
    writer.begin(this.#sequence);
    this.#capabilities(this.#link!.tls === undefined ? agreed : agreed | CAPABILITY.ssl);
    writer.textNul(user);
    const answer = this.#firstAnswer();
    if ((agreed & CAPABILITY.pluginAuthLenenc) === 0) writer.byte(answer.length);
    else writer.lengthOf(answer.length);
    writer.raw(answer);
    // `database` is set, because the client requests this capability only with a database
    if ((agreed & CAPABILITY.connectWithDb) !== 0) writer.textNul(database!);
    if ((agreed & CAPABILITY.pluginAuth) !== 0) writer.textNul(this.#plugin);
    if ((agreed & CAPABILITY.connectAttributes) !== 0)
      this.#attributes({ _client_name: 'svc', program_name: applicationName });
    this.#sequence = writer.end();
    this.#send();
  }

  #attributes(attributes: Readonly<Record<string, string>>): void {
    const packed = new PacketWriter();
    for (const text of Object.entries(attributes).flat()) packed.textLength(text);
    this.#writer.bytesLength(packed.take());
  }

  #firstAnswer(): Buffer {
    switch (this.#plugin) {
      case 'mysql_native_password':
        this.#hash = nativeHash(this.#password);
        return nativePassword(this.#password, this.#nonce);
      case 'caching_sha2_password':
        return cachingSha2Password(this.#password, this.#nonce);
      default:
        // after an empty reply, the server sends the name of its method in an AuthSwitchRequest
        return Buffer.alloc(0);
    }
  }

  /** Handles packets until the login ends. Returns the status of the session. */
  async #authenticate(): Promise<number> {
    for (let switches = 0; ;) {
      const packet = await this.#next();
      switch (packet[0]) {
        case REPLY.ok:
          return this.#onOk(packet);
        case REPLY.eof:
          if (++switches > MAX_SWITCHES)
            throw new ProtocolViolation(
              `the server requested more than ${MAX_SWITCHES} changes of the authentication method`,
            );
          await this.#onSwitch(packet);
          break;
        case REPLY.moreData:
          await this.#onMore(packet.subarray(1));
          break;
        default:
          throw new ProtocolViolation('the server sent a packet that does not belong to a login');
      }
    }
  }

  #onOk(packet: Buffer): number {
    const { status, info } = readOk(packet, 0, packet.length);
    if (this.#isUnproved) this.#checkProof(info);
    return status;
  }

  async #onSwitch(packet: Buffer): Promise<void> {
    if (packet.length === 1)
      throw this.#refusal(
        'the server requests a password hash of a version before MySQL 4.1, which is insecure: give the account another authentication plugin',
      );
    const fields = new Fields(packet, 1, packet.length);
    const name = fields.textNul();
    const data = fields.rest();
    this.#hash = undefined;
    if (name === UNSPOKEN) {
      this.#unspoken = this.#refusal(
        `the account uses the authentication plugin "${UNSPOKEN}", which this client does not support: give the account the plugin parsec, caching_sha2_password or mysql_native_password`,
      );
      // send a dummy signature: the server then tries the second plugin of an account that has two
      return this.#answer(new Uint8Array(NO_SIGNATURE_BYTES));
    }
    this.#unspoken = undefined;
    const plugin = this.#options.plugins.find((each) => each === name);
    if (plugin === undefined)
      throw this.#refusal(
        `the account uses the authentication plugin "${name}", but the client may use only ${this.#options.plugins.join(', ')} (auth_plugins)`,
      );
    this.#plugin = plugin;
    this.#nonce =
      data.length > 0 && data[data.length - 1] === 0 && data.length !== NONCE_BYTES
        ? data.subarray(0, -1)
        : data;
    switch (plugin) {
      case 'sha256_password':
        return this.#sha256();
      case 'mysql_clear_password':
        return this.#answer(this.#inTheClear());
      default:
        return this.#answer(this.#firstAnswer());
    }
  }

  async #sha256(): Promise<void> {
    if (this.#password === '') return this.#answer(Buffer.alloc(1));
    if (this.#isPrivate()) return this.#answer(this.#inTheClear());
    if (this.#options.serverPublicKey === undefined) {
      this.#checkRetrieval();
      this.#answer(Buffer.of(ASK_KEY_SHA256)); // the server then sends its public key in AuthMoreData
    } else await this.#encrypted(undefined);
  }

  async #onMore(data: Buffer): Promise<void> {
    switch (this.#plugin) {
      case 'caching_sha2_password':
        return this.#onCachingSha2(data);
      case 'sha256_password':
        return this.#encrypted(data);
      case 'parsec':
        return this.#onParsec(data);
      default:
        throw new ProtocolViolation(
          `the server sent more data for the authentication method ${this.#plugin}, which expects no more data`,
        );
    }
  }

  async #onCachingSha2(data: Buffer): Promise<void> {
    if (data.length === 1 && data[0] === FAST) return;
    if (data.length !== 1 || data[0] !== FULL) return this.#encrypted(data);
    if (this.#isPrivate()) return this.#answer(this.#inTheClear());
    if (this.#options.serverPublicKey !== undefined) return this.#encrypted(undefined);
    this.#checkRetrieval();
    this.#answer(Buffer.of(ASK_KEY_CACHING));
  }

  async #onParsec(data: Buffer): Promise<void> {
    if (this.#nonce.length !== NONCE_BYTES)
      throw new ProtocolViolation('the server sent an invalid nonce for the authentication method parsec');
    const { answer, publicKey } = await parsecAnswer(
      this.#password,
      readParsecSalt(data),
      this.#nonce,
      randomBytes(NONCE_BYTES),
    );
    this.#hash = Buffer.concat([data, publicKey]);
    this.#answer(answer);
  }

  /** Whether the connection uses TLS or a Unix socket, so that no other machine can read it. */
  #isPrivate(): boolean {
    return this.#link!.tls !== undefined || isUnixHost(this.#host.host);
  }

  #inTheClear(): Buffer {
    const { host } = this.#host;
    const isSafe =
      isUnixHost(host) ||
      (this.#link!.tls !== undefined &&
        (this.#link!.tls.authorized || isLocalHost(host)) &&
        !this.#isUnproved);
    if (!isSafe)
      throw this.#refusal(
        `the server requests a clear-text password (${this.#plugin}), which is sent only over TLS with a verified certificate (sslmode=verify-full), or to a server on this machine`,
      );
    return Buffer.from(`${this.#password}\0`);
  }

  #checkRetrieval(): void {
    if (this.#options.allowsKeyRetrieval || isLocalHost(this.#host.host)) return;
    throw this.#refusal(
      `the server requests the password encrypted with the server's key (${this.#plugin}), which an attacker could replace: use TLS (sslmode=verify-full), or set server_public_key=… to a file with the server's key`,
    );
  }

  /** Sends the password, encrypted with the configured key or else with the key that the server sent. */
  async #encrypted(sent: Buffer | undefined): Promise<void> {
    const { serverPublicKey } = this.#options;
    if (sent !== undefined && serverPublicKey !== undefined)
      throw new ProtocolViolation('the server sent a public key that was not requested');
    if (sent !== undefined) this.#checkRetrieval();
    const key = sent ?? (await fileOf(serverPublicKey, this.#shown));
    try {
      this.#answer(encryptedPassword(this.#password, this.#nonce, key!));
    } catch (error) {
      if (error instanceof RangeError) throw this.#refusal(error.message);
      throw error;
    }
  }

  /** Checks the server's proof that a self-signed certificate is its own. */
  #checkProof(info: Buffer): void {
    const fingerprint = this.#link!.tls!.getPeerX509Certificate()?.fingerprint256.replaceAll(':', '');
    const received = infoOf(info);
    if (this.#hash === undefined || this.#password === '')
      throw this.#refusal(
        `the server's certificate is self-signed, and an account without a password, or with the plugin ${this.#plugin}, cannot prove that it is genuine: set sslrootcert=… to the certificate`,
      );
    const expected = Buffer.from(
      certificateProof(this.#hash, this.#greeting!.nonce, Buffer.from(fingerprint ?? '', 'hex')),
    );
    const proof = Buffer.from(received.subarray(1).toString('latin1').toLowerCase());
    if (received[0] !== PROOF_MARK || proof.length !== expected.length || !timingSafeEqual(proof, expected))
      throw this.#refusal(
        "the server's certificate is self-signed, and the server does not prove that it is its own: an attacker may be between client and server",
      );
  }

  #answer(data: Uint8Array): void {
    this.#writer.begin(this.#sequence);
    this.#writer.raw(data);
    this.#sequence = this.#writer.end();
    this.#send();
  }

  async #next(): Promise<Buffer> {
    for (;;) {
      const packet = this.inbox.shift();
      if (packet?.[0] === REPLY.error) throw this.#unspoken ?? this.#serverError(packet);
      if (packet !== undefined) return packet;
      await this.more();
    }
  }

  #onPacket(bytes: Buffer, at: number, end: number, sequence: number): void {
    if (sequence !== this.#sequence) throw wrongSequence(sequence, this.#sequence);
    this.#sequence = this.reader.sequence;
    if (at === end) throw new ProtocolViolation('the server sent an empty packet');
    this.receive(Buffer.from(bytes.subarray(at, end)));
  }

  #serverError(packet: Buffer): DatabaseError {
    const { user, database } = this.#options;
    const error = mysqlError(readError(packet, 0, packet.length), undefined);
    error.message = `${this.#shown} refused the login of "${user}"${database === undefined ? '' : ` to "${database}"`}: ${error.message}`;
    return error;
  }

  #refusal(problem: string): SvcError<'E_DB_CONNECT'> {
    return new SvcError('E_DB_CONNECT', [this.#shown, problem]);
  }

  #send(): void {
    this.#link!.socket.write(this.#writer.take());
  }
}

/** Returns the text of an OK packet. It has a length prefix, or extends to the end. */
function infoOf(info: Buffer): Buffer {
  return info.length > 0 && info[0] === info.length - 1 ? info.subarray(1) : info;
}
