import {
  type CallToolResult,
  Client,
  type ClientOptions,
  type JsonSchemaValidator,
  type jsonSchemaValidator,
  ProtocolError,
  SdkError,
  SdkErrorCode,
  SdkHttpError,
  StreamableHTTPClientTransport,
  type Tool as ListedTool,
  type Transport,
} from '@modelcontextprotocol/client';
import { DEFAULT_INHERITED_ENV_VARS, StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import type { ToolCallContext } from '@toolloop/core';
import type { JsonObject } from '@toolloop/protocol';
import { BoundedFetch, type RequestUse } from './bounded-fetch.js';
import type { McpTracing } from '../server/server-options.js';
import type { McpHttpServer, McpStdioServer, NamedServer } from './server-options.js';
import { definitionOf, hashOf } from './tool-pins.js';

/** A tool as a server lists it now. */
export interface OfferedTool {
  readonly listed: ListedTool;
  readonly hash: string;
  /** True where the server lists another one of its name. */
  readonly isTwice: boolean;
}

/** The settings of a client beside what every session has: a test of the protocol declares more. */
export interface SessionSettings extends Pick<ClientOptions, 'capabilities' | 'inputRequired'> {
  /** Handed the client before it connects. */
  readonly prepare?: (client: Client) => void;
  /** Carries the trace of a call to the server. */
  readonly trace?: Pick<McpTracing, 'outgoing'> | undefined;
}

/** Accepts everything: results are held against the narrowed schema by the pipeline, whose patterns run in linear time. */
class Unchecked implements jsonSchemaValidator {
  getValidator<Value>(): JsonSchemaValidator<Value> {
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the pipeline decides what it is
    return (input) => ({ valid: true, data: input as Value, errorMessage: undefined });
  }
}

const CLIENT = { name: 'toolloop', version: '0.0.0' };

/** The way of a session to its server. */
interface Way {
  readonly transport: Transport;
  readonly run: <Result>(use: RequestUse, work: () => Promise<Result>) => Promise<Result>;
  readonly close: () => Promise<void>;
}

/** One conversation with one server, under one credential. Nothing of it is shared with another. */
export class McpSession {
  /** True once the server or the process behind it has gone. */
  isClosed = false;
  /** The tools as they were listed last. */
  offered: ReadonlyMap<string, OfferedTool> = new Map();
  private listedAt = Number.NEGATIVE_INFINITY;
  private changes = 0;

  private constructor(
    private readonly server: NamedServer,
    private readonly client: Client,
    private readonly way: Way,
    private readonly trace: SessionSettings['trace'],
  ) {}

  /**
   * Connects to a server and declares no capability: it can neither ask a person nor a model for anything, and its instructions are not read.
   *
   * @param onChange called when the server says that its tools have changed, and when it has gone
   * @throws {Error} For a server that cannot be reached in time, or speaks no version of the protocol that is known.
   */
  static async open(
    server: NamedServer,
    {
      use,
      signal,
      onChange,
      settings,
    }: { readonly use: RequestUse; readonly signal: AbortSignal; readonly onChange: () => void; readonly settings?: SessionSettings },
  ): Promise<McpSession> {
    const way = wayTo(server, use);
    const { prepare, trace, ...declared } = settings ?? {};
    const told: { session?: McpSession } = {};
    const client = new Client(CLIENT, {
      capabilities: {},
      versionNegotiation: { mode: 'auto' },
      inputRequired: { autoFulfill: false },
      ...declared,
      jsonSchemaValidator: new Unchecked(),
      listMaxPages: server.limits.pages,
      listChanged: {
        tools: {
          autoRefresh: false,
          onChanged: () => {
            told.session?.outdate();
            onChange();
          },
        },
      },
    });
    prepare?.(client);
    const session = new McpSession(server, client, way, trace);
    told.session = session;
    // oxlint-disable-next-line unicorn/prefer-add-event-listener -- it is no EventTarget
    client.onclose = () => {
      if (session.isClosed) return;
      session.isClosed = true;
      onChange();
    };
    try {
      await way.run(use, () => client.connect(way.transport, { signal, timeout: server.limits.connectMs }));
      return session;
    } catch (error) {
      session.isClosed = true;
      await session.close();
      throw error;
    }
  }

  /** True where its list does not count any more. */
  get isStale(): boolean {
    return performance.now() - this.listedAt > this.server.limits.freshMs;
  }

  /** Asks for its tools now. @throws {Error} For a list that is too long, too large or takes too long. */
  async list(use: RequestUse, signal: AbortSignal): Promise<ReadonlyMap<string, OfferedTool>> {
    const { connectMs: timeout } = this.server.limits;
    const options = { signal, timeout, maxTotalTimeout: timeout, cacheMode: 'bypass' as const };
    const { changes } = this;
    const { tools } = await this.way.run(use, () => this.client.listTools(undefined, options));
    const offered = new Map<string, OfferedTool>();
    for (const listed of tools) {
      const definition = definitionOf(listed);
      if (definition) offered.set(listed.name, { listed, hash: hashOf(definition), isTwice: offered.has(listed.name) });
    }
    this.offered = offered;
    if (changes === this.changes) this.listedAt = performance.now(); // what changed meanwhile may not be in it
    return offered;
  }

  private outdate(): void {
    this.changes += 1;
    this.listedAt = Number.NEGATIVE_INFINITY;
  }

  /** Calls a tool. The server is told when the signal aborts. */
  async call(
    tool: OfferedTool,
    args: JsonObject,
    context: Pick<ToolCallContext, 'signal' | 'deadline' | 'progress'> & { readonly use: RequestUse },
  ): Promise<CallToolResult> {
    const { signal, deadline, progress, use } = context;
    const { name } = tool.listed;
    const timeout = Math.min(Math.max(1, deadline.getTime() - Date.now()) + GRACE_MS, LONGEST_MS); // the signal comes first
    const onprogress = (told: { readonly progress: number; readonly total?: number | undefined }): void => {
      progress({ progress: told.progress, ...(told.total !== undefined && { total: told.total }) });
    };
    const options = { signal, timeout, maxTotalTimeout: timeout, resetTimeoutOnProgress: true, onprogress, toolDefinition: tool.listed };
    const traced = this.trace && { _meta: this.trace.outgoing() };
    return this.way.run(use, () => this.client.callTool({ name, arguments: args, ...traced }, options));
  }

  /** Ends it: the process, the sockets and, where the server keeps one, its session. */
  async close(): Promise<void> {
    const { transport } = this.way;
    if (!this.isClosed && transport instanceof StreamableHTTPClientTransport && transport.sessionId !== undefined)
      await Promise.race([transport.terminateSession().catch(() => undefined), pause(GRACE_MS)]);
    this.isClosed = true;
    await this.client.close().catch(() => undefined);
    await this.way.close();
  }
}

const GRACE_MS = 1_000;
const LONGEST_MS = 2 ** 31 - 1;

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => {
    setTimeout(resolve, ms).unref();
  });
}

function wayTo({ options, limits }: NamedServer, { token }: RequestUse): Way {
  return 'url' in options ? overHttp(options, limits.messageBytes) : overStdio(options, limits.messageBytes, token);
}

function overHttp(options: McpHttpServer, most: number): Way {
  const bounded = new BoundedFetch(options, most);
  const { authProvider } = options;
  const transport = new StreamableHTTPClientTransport(new URL(options.url), {
    fetch: bounded.fetch,
    ...(authProvider && { authProvider }),
  });
  return { transport, run: (use, work) => bounded.use.run(use, work), close: () => bounded.close() };
}

/** The SDK would hand over some variables of the application by itself: here only those that are named. */
function overStdio(
  { command, args = [], cwd, env = {}, inherit = ['PATH'], tokenEnv }: McpStdioServer,
  most: number,
  token: RequestUse['token'],
): Way {
  const variables: Record<string, string> = {};
  // A variable without a value is left out, which the SDK's type does not say.
  for (const name of DEFAULT_INHERITED_ENV_VARS) Reflect.set(variables, name, undefined);
  for (const name of inherit) Reflect.set(variables, name, process.env[name]);
  Object.assign(variables, env, tokenEnv !== undefined && token ? { [tokenEnv]: token() } : {});
  const transport = new StdioClientTransport({
    command,
    args: [...args],
    ...(cwd !== undefined && { cwd }),
    env: variables,
    stderr: 'ignore',
    maxBufferSize: most,
  });
  return { transport, run: (_, work) => work(), close: () => Promise.resolve() };
}

/** The reasons for which a request to a server fails, as far as they decide what may be done about it. */
export type Failure = 'refused' | 'not_sent' | 'session_gone' | 'lost';

/**
 * Tells how far a request came: the server has answered with an error (`refused`), has not got it (`not_sent`), does not know the session any more (`session_gone`), or may have
 * done what it asks for (`lost`).
 */
export function failureOf(error: unknown): Failure {
  if (error instanceof ProtocolError) return 'refused';
  if (error instanceof SdkHttpError) return error.status === 404 ? 'session_gone' : error.status < 500 ? 'refused' : 'lost';
  if (error instanceof SdkError) {
    if (error.code === SdkErrorCode.NotConnected) return 'not_sent';
    return error.code === SdkErrorCode.UnsupportedResultType ? 'refused' : 'lost';
  }
  return UNREACHED.has(codeOf(error)) ? 'not_sent' : 'lost';
}

/** Codes of sockets that were never connected. */
const UNREACHED: ReadonlySet<string> = new Set([
  'ECONNREFUSED',
  'ENOTFOUND',
  'EAI_AGAIN',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'ENOENT',
  'EACCES',
  'UND_ERR_CONNECT_TIMEOUT',
]);

/** Returns the code of an error or of one of its causes; empty where there is none. */
function codeOf(error: unknown): string {
  let one: unknown = error;
  for (let depth = 0; depth < 5 && one instanceof Error; depth += 1) {
    const code: unknown = Reflect.get(one, 'code');
    if (typeof code === 'string' && UNREACHED.has(code)) return code;
    one = one.cause;
  }
  return '';
}
