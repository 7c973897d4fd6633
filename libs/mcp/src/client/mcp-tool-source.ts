import { ProtocolError } from '@modelcontextprotocol/client';
import { type BeforeApplicationShutdown } from '@nestjs/common';
import { type Tool, type ToolCallContext, ToolSource } from '@toolloop/core';
import type { AuditTrail } from '@toolloop/core/audit';
import { Logger, sha256 } from '@toolloop/core/internal';
import { sourceAnswer, sourceTool, type SourceTool } from '@toolloop/core/sources';
import {
  ConfigurationError,
  type JsonObject,
  ToolError,
  type ToolOrigin,
} from '@toolloop/protocol';
import { Subject } from 'rxjs';
import { AnswerTooLargeError, type RequestUse } from './bounded-fetch.js';
import { type Caller, McpConnections, SHARED } from './mcp-connections.js';
import { failureOf } from './mcp-failure.js';
import { type McpSession } from './mcp-session.js';
import type { OfferedTools, Problem } from './offered-tools.js';
import {
  allowedTools,
  clientFindings,
  endpointOf,
  type McpClientOptions,
  type McpServer,
  type NamedServer,
  namedServer,
  prefixOf,
  secretsOf,
} from './server-options.js';
import {
  changed,
  cutList,
  gone,
  headerProblem,
  movedAway,
  nameProblem,
  unpinned,
} from './quarantine-reasons.js';
import { isOfOutput, toResult } from './server-answer.js';
import { SentSecrets } from './sent-secrets.js';
import { PinFile, type ToolDefinition, type ToolPin } from './tool-pins.js';

/**
 * The tools of one MCP server. None of them is there unless the application names it and its
 * definition is pinned; what the server says of its tools changes no policy, no limit and no
 * prompt. {@link McpClientModule} makes one per server.
 */
export class McpToolSource extends ToolSource implements BeforeApplicationShutdown {
  override readonly origin: ToolOrigin;
  override readonly prefix: string;
  override readonly isPinned = true;
  override readonly changes$ = new Subject<void>();
  private readonly logger = new Logger(McpToolSource.name);
  private readonly server: NamedServer;
  private readonly pins: PinFile;
  private readonly trail: AuditTrail | undefined;
  private readonly connections: McpConnections;
  private readonly secrets: SentSecrets;
  /** `true` if the server is sent any secret, so that its answers may tell one. */
  private readonly mayTell: boolean;

  /** @throws {ConfigurationError} For wrong options, and for a file of pins that cannot be read. */
  constructor(
    name: string,
    options: McpServer,
    { pins = DEFAULT_PINS, trail, trace }: McpToolSourceOptions = {},
  ) {
    super();
    const findings = clientFindings({ servers: { [name]: options } }, 'McpToolSource');
    if (findings.length > 0) throw new ConfigurationError(findings);
    this.server = namedServer(name, options);
    this.origin = { source: `mcp:${name}`, trusted: false };
    this.prefix = prefixOf(name);
    this.pins = typeof pins === 'string' ? PinFile.read(pins) : pins;
    this.trail = trail;
    const fixed = secretsOf(options);
    this.secrets = new SentSecrets(fixed);
    this.mayTell =
      fixed.length > 0 || ('authProvider' in options && options.authProvider !== undefined);
    this.connections = new McpConnections(this.server, () => this.changes$.next(), { trace });
  }

  /**
   * Compares what the server offers with the pins. A server with a `connectionId` is asked in its
   * calls, which bring a credential.
   */
  override async tools(signal: AbortSignal): Promise<readonly SourceTool[]> {
    if (this.server.options.connectionId !== undefined) return this.known();
    const caller = callerOf({ key: SHARED, signal, secrets: this.secrets });
    const offered = await this.connections.use(
      caller,
      (session) => session.list(caller.use, caller.signal),
      { isAttempt: true },
    );
    if (offered.nameless > 0)
      this.logger.warn(
        `${this.origin.source}: ${offered.nameless} of its tools have no name, so that no one can call them.`,
      );
    if (offered.isCut)
      this.logger.warn(
        `${this.origin.source}: ${cutList(this.server).problem} ${cutList(this.server).remedy}`,
      );
    return this.allowed(offered);
  }

  /** Returns what is pinned. The calls of a server that is away say so. */
  override known(): readonly SourceTool[] {
    return this.allowed();
  }

  async beforeApplicationShutdown(): Promise<void> {
    await this.connections.close();
  }

  /**
   * The tools that the application names, compared with what the server offers, if that is known.
   */
  private allowed(offered?: OfferedTools): readonly SourceTool[] {
    const { name, options } = this.server;
    const { connectionId } = options;
    const set = this.pins.of(name, typeof connectionId === 'string' ? connectionId : undefined);
    return [...allowedTools(options)].map(([tool, shown]): SourceTool => {
      const id = `${this.prefix}__${shown}`;
      const pin = set?.tools[tool];
      const unusable = nameProblem(shown, id) ?? unusableIn(offered, tool);
      if (unusable) return { id, refused: unusable };
      if (!pin || !set) return { id, refused: unpinned(tool) };
      const endpoint = endpointOf(options);
      const problem =
        set.endpoint === endpoint
          ? offered && this.problemWith({ id, pin }, offered)
          : movedAway(set.endpoint, endpoint);
      return problem ? { id, refused: problem } : this.toTool({ id, pin });
    });
  }

  private toTool(tool: EnabledTool): Tool {
    const { definition } = tool.pin;
    const { timeoutMs } = this.server.options;
    return sourceTool({
      id: tool.id,
      origin: this.origin,
      description: descriptionOf(definition, this.server.name),
      inputSchema: definition.inputSchema,
      ...(definition.outputSchema && { outputSchema: definition.outputSchema }),
      ...(timeoutMs !== undefined && { timeoutMs }),
      ...(this.mayTell && { secrets: this.secrets }),
      invoke: (args, context) => this.call(tool, args, context),
    });
  }

  private async call(
    tool: EnabledTool,
    args: JsonObject,
    context: ToolCallContext,
  ): Promise<unknown> {
    const call: CallUnderWay = {
      tool,
      args,
      context,
      connectionId: this.connectionOf(context),
      isSent: false,
    };
    const caller = await this.callerFor(call);
    try {
      const answer = await this.connections.use(caller, (session) =>
        this.send(session, call, caller),
      );
      return toResult(answer, tool.pin.definition);
    } catch (error) {
      if (call.isSent && error instanceof ProtocolError && isOfOutput(error.message))
        return sourceAnswer(error.message);
      throw this.explained(caller.cut() ?? error, call);
    }
  }

  private connectionOf(context: ToolCallContext): string | undefined {
    const { connectionId } = this.server.options;
    if (typeof connectionId !== 'function') return connectionId;
    const chosen = connectionId(context);
    if (typeof chosen === 'string' && chosen !== '') return chosen;
    throw new TypeError(
      `The connectionId of the server "${this.server.name}" returned no id, so that no credential is known for the call.`,
    );
  }

  /**
   * One connection for each credential: it is told by the tenant, the connection and the hash of
   * its token, so that a new token is a new connection.
   */
  private async callerFor({ connectionId, context }: CallUnderWay): Promise<CuttableCaller> {
    const { signal, tenant } = context;
    if (connectionId === undefined) return callerOf({ key: SHARED, signal, secrets: this.secrets });
    const credential = await context.connection(connectionId);
    return callerOf({
      key: JSON.stringify([tenant, connectionId, sha256(credential.token)]),
      signal,
      token: () => credential.token,
    });
  }

  private async send(
    session: McpSession,
    call: CallUnderWay,
    { use, signal }: Caller,
  ): Promise<Readonly<Record<string, unknown>>> {
    const { tool, args, context } = call;
    call.isSent = false;
    const offered = session.isStale ? await session.list(use, signal) : session.offered;
    const problem = this.problemWith(tool, offered, call.connectionId);
    if (problem) throw await this.quarantined(problem, call);
    call.isSent = true;
    const { definition } = tool.pin; // which is the one that is offered
    return session.call(definition, args, {
      signal,
      deadline: context.deadline,
      progress: (value) => context.progress(value),
      use,
    });
  }

  private problemWith(
    { pin }: EnabledTool,
    list: OfferedTools,
    connectionId?: string,
  ): Problem | undefined {
    const { name, options } = this.server;
    const tool = pin.definition.name;
    const own = connectionId === undefined ? pin : this.pins.of(name, connectionId)?.tools[tool];
    if (!own) return unpinned(tool);
    const offered = list.tools.get(tool);
    if (!offered) return list.isCut ? cutList(this.server) : gone(tool);
    if ('problem' in offered) return offered.problem;
    if (offered.hash !== own.hash || offered.hash !== pin.hash) return changed(offered.hash);
    return headerProblem(pin.definition, options);
  }

  /**
   * Refuses a call. A tool without a connection goes into quarantine, since its source is asked
   * again; for another one that connection alone is concerned.
   */
  private async quarantined(
    { problem }: Problem,
    { tool, context, connectionId }: CallUnderWay,
  ): Promise<ToolError> {
    const { runId, toolCallId, step, tenant } = context;
    this.logger.warn(`${this.origin.source}: ${tool.id} was not called. ${problem}`);
    if (connectionId === undefined) this.changes$.next();
    else {
      const details = { connectionId, quarantined: [{ id: tool.id, reason: problem }] };
      const subject = { runId, toolCallId, step, declaredId: tool.id };
      await this.trail?.after({
        tenant,
        subject,
        event: { kind: 'source', source: this.origin.source, details },
      });
    }
    return new ToolError(
      'The tool is in quarantine: its server does not offer it as it was approved. Do without it.',
    );
  }

  /** Words a failure without what the server says of it, unless that is its answer to the call. */
  private explained(error: unknown, { isSent, context, connectionId }: CallUnderWay): unknown {
    if (context.signal.aborted || error instanceof ToolError) return error;
    const { name } = this.server;
    if (error instanceof AnswerTooLargeError)
      return new ToolError(`The answer of the server "${name}" is too large to be read.`, {
        isOutcomeUnknown: isSent,
        cause: error,
      });
    const failure = failureOf(error);
    if (isSent && (failure === 'unreadable' || failure === 'refused'))
      return answered(failure, name, error);
    // by which the source is seen to be away, if it is
    if (connectionId === undefined) this.changes$.next();
    if (isSent && failure !== 'not_sent')
      return new ToolError(`The connection to the server "${name}" broke before it answered.`, {
        retryable: true,
        isOutcomeUnknown: true,
        cause: error,
      });
    return new ToolError(
      `The server "${name}" cannot be reached at present. Try again later, or do without its tools.`,
      {
        retryable: true,
        cause: error,
      },
    );
  }
}

export const DEFAULT_PINS = 'mcp.pins.json';

/** The surroundings of a source. */
interface McpToolSourceOptions {
  /** The pins, or the file that has them. @default 'mcp.pins.json' in the working directory */
  readonly pins?: PinFile | string;
  /**
   * Records the calls that were refused since a connection offers another definition. @default no
   * one is told but the caller and the log
   */
  readonly trail?: AuditTrail;
  /** Carries the trace of each call to the server. @default none */
  readonly trace?: McpClientOptions['trace'];
}

/** A tool that the application enables and has pinned. */
interface EnabledTool {
  readonly id: string;
  readonly pin: ToolPin;
}

/** A call on its way to the server. */
interface CallUnderWay {
  readonly tool: EnabledTool;
  readonly args: JsonObject;
  readonly context: ToolCallContext;
  readonly connectionId: string | undefined;
  /** True once the server may have got the call. */
  isSent: boolean;
}

/** Words the failure of a call whose server has answered something else than a result. */
function answered(failure: 'unreadable' | 'refused', server: string, cause: unknown): ToolError {
  return failure === 'refused'
    ? new ToolError(`The server "${server}" refused the call: ${wordsOf(cause)}`, { cause })
    : new ToolError(`The server "${server}" has answered, but its answer cannot be read.`, {
        isOutcomeUnknown: true,
        cause,
      });
}

function unusableIn(list: OfferedTools | undefined, tool: string): Problem | undefined {
  const offered = list?.tools.get(tool);
  return offered && 'problem' in offered ? offered.problem : undefined;
}

function descriptionOf({ description, title, name }: ToolDefinition, server: string): string {
  const said = [description, title].find((text) => text !== undefined && text.trim() !== '');
  return said ?? `Calls ${name} of the server ${server}.`;
}

/** A caller, and why its requests were cut off, if they were. */
interface CuttableCaller extends Caller {
  readonly cut: () => unknown;
}

/** A caller whose requests end with its signal, or when one of them receives too much. */
function callerOf({
  key,
  signal,
  token,
  secrets,
}: Pick<Caller, 'key' | 'signal'> & Pick<RequestUse, 'token' | 'secrets'>): CuttableCaller {
  const ending = new AbortController();
  const use: RequestUse = {
    ...(token && { token }),
    ...(secrets && { secrets }),
    fail: (error) => ending.abort(error),
  };
  return {
    key,
    use,
    signal: AbortSignal.any([signal, ending.signal]),
    cut: () => ending.signal.reason as unknown,
  };
}

const MOST_WORDS = 500;

/** The words of a server that refuses a call are its answer, and as untrusted as any other. */
function wordsOf(error: unknown): string {
  return error instanceof Error && error.message !== ''
    ? error.message.slice(0, MOST_WORDS)
    : 'it did not say why.';
}
