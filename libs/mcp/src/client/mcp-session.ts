import {
  Client,
  type ClientOptions,
  type JsonSchemaValidator,
  type jsonSchemaValidator,
  StreamableHTTPClientTransport,
  type Transport,
} from '@modelcontextprotocol/client';
import {
  DEFAULT_INHERITED_ENV_VARS,
  StdioClientTransport,
} from '@modelcontextprotocol/client/stdio';
import type { ToolCallContext } from '@toolloop/core';
import { toJsonObject } from '@toolloop/core/internal';
import type { JsonObject } from '@toolloop/protocol';
import type { McpTracing } from '../server/server-options.js';
import { BoundedFetch, type RequestUse } from './bounded-fetch.js';
import { NOTHING_OFFERED, OfferedPages, type OfferedTools } from './offered-tools.js';
import type { McpHttpServer, McpStdioServer, NamedServer } from './server-options.js';
import type { ToolDefinition } from './tool-pins.js';
import { type Send, unreadResult, UnreadResults } from './unread-results.js';

/** One conversation with one server, under one credential. Nothing of it is shared with another. */
export class McpSession {
  /** True once the server or the process behind it has gone. */
  isClosed = false;
  /** The tools as they were listed last. */
  offered: OfferedTools = NOTHING_OFFERED;
  private listedAt = Number.NEGATIVE_INFINITY;
  private changes = 0;

  private constructor(
    private readonly server: NamedServer,
    private readonly client: Client,
    private readonly way: Way,
    private readonly trace: SessionSettings['trace'],
  ) {}

  /**
   * Connects to a server and declares no capability: it can neither ask a person nor a model for
   * anything, and its instructions are not read.
   *
   * @param onChange called when the server says that its tools have changed, and when it has gone
   * @throws {Error} For a server that cannot be reached in time, or speaks no version of the
   *   protocol that is known.
   */
  static async open(
    server: NamedServer,
    {
      use,
      signal,
      onChange,
      settings,
    }: {
      readonly use: RequestUse;
      readonly signal: AbortSignal;
      readonly onChange: () => void;
      readonly settings?: SessionSettings;
    },
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
      await way.run(use, () =>
        client.connect(way.transport, { signal, timeout: server.limits.connectMs }),
      );
      UnreadResults.of(way.transport, way.noting);
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

  /**
   * Asks for its tools now, page by page. A list with more pages than are read is cut. @throws
   * {Error} For an answer that is no list, is too large or takes too long.
   */
  async list(use: RequestUse, signal: AbortSignal): Promise<OfferedTools> {
    const { changes } = this;
    const offered = this.client.getServerCapabilities()?.tools
      ? await this.pages(use, signal)
      : NOTHING_OFFERED;
    this.offered = offered;
    // what changed meanwhile may not be in it
    if (changes === this.changes) this.listedAt = performance.now();
    return offered;
  }

  private async pages(use: RequestUse, signal: AbortSignal): Promise<OfferedTools> {
    const { connectMs: timeout, pages: most } = this.server.limits;
    const options = { signal, timeout, maxTotalTimeout: timeout, cacheMode: 'bypass' as const };
    const pages = new OfferedPages();
    let cursor: string | undefined;
    for (let page = 0; page < most; page += 1) {
      const request = {
        method: 'tools/list' as const,
        ...(cursor !== undefined && { params: { cursor } }),
      };
      const result = unreadResult(
        await this.way.run(use, () => this.client.request(request, options)),
      );
      const next = result?.['nextCursor'];
      if (!pages.add(result?.['tools']) || typeof next !== 'string') return pages.read(false);
      cursor = next;
    }
    return pages.read(true);
  }

  private outdate(): void {
    this.changes += 1;
    this.listedAt = Number.NEGATIVE_INFINITY;
  }

  /**
   * Calls a tool, and returns the answer as it came. The server is told when the signal aborts.
   *
   * @throws {UnreadableAnswerError} If the server has sent something else in the place of an
   *   answer.
   */
  async call(
    { name, inputSchema }: ToolDefinition,
    args: JsonObject,
    context: Pick<ToolCallContext, 'signal' | 'deadline' | 'progress'> & {
      readonly use: RequestUse;
    },
  ): Promise<Readonly<Record<string, unknown>>> {
    const { signal, deadline, progress, use } = context;
    // the signal comes first
    const timeout = Math.min(Math.max(1, deadline.getTime() - Date.now()) + GRACE_MS, LONGEST_MS);
    const onprogress = (told: {
      readonly progress: number;
      readonly total?: number | undefined;
    }): void => {
      progress({ progress: told.progress, ...(told.total !== undefined && { total: told.total }) });
    };
    // It is about headers alone: the pipeline holds results against their schema.
    const toolDefinition = {
      name,
      inputSchema: { ...toJsonObject(inputSchema), type: 'object' as const },
    };
    const options = {
      signal,
      timeout,
      maxTotalTimeout: timeout,
      resetTimeoutOnProgress: true,
      onprogress,
      toolDefinition,
    };
    const traced = this.trace && { _meta: this.trace.outgoing() };
    const answer = unreadResult(
      await this.way.run(use, () =>
        this.client.callTool({ name, arguments: args, ...traced }, options),
      ),
    );
    if (!answer) throw new UnreadableAnswerError('it sent no answer to the request');
    const { resultType = 'complete' } = answer;
    if (typeof resultType === 'string' && resultType !== 'complete')
      throw new UnreadableAnswerError(`its result is of the type "${resultType}"`);
    return answer;
  }

  /** Ends it: the process, the sockets and, where the server keeps one, its session. */
  async close(): Promise<void> {
    const { transport } = this.way;
    if (
      !this.isClosed &&
      transport instanceof StreamableHTTPClientTransport &&
      transport.sessionId !== undefined
    )
      await Promise.race([transport.terminateSession().catch(() => undefined), pause(GRACE_MS)]);
    this.isClosed = true;
    await this.client.close().catch(() => undefined);
    await this.way.close();
  }
}

/** The settings of a client beside what every session has: a test of the protocol declares more. */
export interface SessionSettings extends Pick<ClientOptions, 'capabilities' | 'inputRequired'> {
  /** Handed the client before it connects. */
  readonly prepare?: (client: Client) => void;
  /** Carries the trace of a call to the server. */
  readonly trace?: Pick<McpTracing, 'outgoing'> | undefined;
}

/**
 * Accepts everything: results are held against the narrowed schema by the pipeline, whose patterns
 * run in linear time.
 */
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
  readonly noting: Send;
  readonly close: () => Promise<void>;
}

/** Thrown if what a server has sent in the place of an answer cannot be read. */
export class UnreadableAnswerError extends Error {
  override readonly name = 'UnreadableAnswerError';
}

const GRACE_MS = 1_000;
const LONGEST_MS = 2 ** 31 - 1;

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => {
    setTimeout(resolve, ms).unref();
  });
}

function wayTo({ options, limits }: NamedServer, { token }: RequestUse): Way {
  return 'url' in options
    ? overHttp(options, limits.messageBytes)
    : overStdio(options, limits.messageBytes, token);
}

function overHttp(options: McpHttpServer, most: number): Way {
  const bounded = new BoundedFetch(options, most);
  const { authProvider } = options;
  const transport = new StreamableHTTPClientTransport(new URL(options.url), {
    fetch: bounded.fetch,
    ...(authProvider && { authProvider }),
  });
  return {
    transport,
    run: (use, work) => bounded.use.run(use, work),
    noting: bounded.noting,
    close: () => bounded.close(),
  };
}

/**
 * The SDK would hand over some variables of the application by itself: here only those that are
 * named.
 */
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
  return {
    transport,
    run: (_, work) => work(),
    noting: (_, send) => send(),
    close: () => Promise.resolve(),
  };
}
