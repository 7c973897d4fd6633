// McpServer, which is meant instead of Server, compiles the schemas of all tools for each request.
/* oxlint-disable typescript/no-deprecated -- see above */
import { Logger } from '@toolloop/core/internal';
import {
  isSpecType,
  type LoggingLevel,
  ProtocolError,
  ProtocolErrorCode,
  type Server,
  type ServerContext,
} from '@modelcontextprotocol/server';
import type { CallResult, ToolSession } from '@toolloop/core/contracts';
import {
  InvalidRequestError,
  isObject,
  type JsonObject,
  type JsonValue,
  RunError,
} from '@toolloop/protocol';
import { abilitiesOf } from './client-questions.js';
import type { Offers } from './offers.js';
import type { McpServerOptions } from './server-options.js';
import { type Answer, type MadeCall, type McpCaller, type WaitingCalls } from './waiting-calls.js';

/** A server's surroundings: whom it answers, and with what. */
export interface Serving {
  readonly options: Pick<
    McpServerOptions,
    'name' | 'version' | 'instructions' | 'names' | 'ui' | 'trace'
  >;
  readonly caller: McpCaller;
  /** Opens the session with the first request that needs it. */
  readonly sessionOf: () => Promise<ToolSession>;
  readonly waiting: WaitingCalls;
  /** The prompts and resources that clients read beside tools. */
  readonly offers: Offers;
  /**
   * The addresses of the resources of whose changes the client is told; in the era of 2026 those
   * are part of its stream.
   */
  readonly watched: Set<string>;
}

const logger = new Logger('McpServer');

/** A call in the words of a request. */
interface RequestedCall {
  readonly session: ToolSession;
  /** The id of the tool, which of a prompt or a resource is that of its method. */
  readonly id: string;
  readonly args: Readonly<Record<string, unknown>> | undefined;
  readonly context: ServerContext;
}

/**
 * Makes a call of the session of a server, for a request; one that waits is asked about, or taken
 * up.
 */
export async function callOf(
  server: Server,
  { caller, waiting, options: { trace } }: Serving,
  { session, id, args, context }: RequestedCall,
): Promise<Answer> {
  const { mcpReq } = context;
  const { _meta: meta } = mcpReq;
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- it was read as JSON
  const given = (args ?? {}) as JsonObject;
  const asked = {
    caller,
    context,
    args: given,
    name: id,
    sessionId: session.sessionId,
    abilities: () => abilitiesOf(server, context),
  };
  const make = (): Promise<CallResult> =>
    session.call(id, given, { signal: mcpReq.signal, onProgress: reportTo(mcpReq) });
  const work = (): Promise<Answer> => answered(() => waiting.make(asked, make));
  return trace && meta ? trace.incoming({ ...meta }, work) : work();
}

type ReportedRequest = Pick<ServerContext['mcpReq'], '_meta' | 'notify' | 'log'>;

/**
 * Tells a client what a tool says of its progress. A number is the progress itself; of anything
 * else the words are told, and counted. `{ level, message }` is a line of the log, which a client
 * gets that has set a level.
 */
function reportTo({ _meta, notify, log }: ReportedRequest): (value: JsonValue) => void {
  const progressToken = _meta?.progressToken;
  let told = 0;
  return (value) => {
    // A client that is gone needs no progress; its call is aborted elsewhere.
    if (isLogLine(value)) return void log(value.level, value['message']).catch(() => undefined);
    if (progressToken === undefined) return;
    told += 1;
    void notify({
      method: 'notifications/progress',
      params: { progressToken, ...progressIn(value, told) },
    }).catch(() => undefined);
  };
}

function isLogLine(value: JsonValue): value is JsonObject & { readonly level: LoggingLevel } {
  return (
    isObject(value) && isSpecType.LoggingLevel(value['level']) && value['message'] !== undefined
  );
}

function progressIn(value: JsonValue, told: number): JsonObject {
  if (typeof value === 'number') return { progress: value };
  if (typeof value === 'string') return { progress: told, message: value };
  if (!isObject(value)) return { progress: told };
  const { progress, total, message } = value;
  if (typeof progress !== 'number') return { progress: told, message: JSON.stringify(value) };
  return {
    progress,
    ...(typeof total === 'number' && { total }),
    ...(typeof message === 'string' && { message }),
  };
}

/**
 * Tells whether a call named what the session does not have: policy may hide it, or there is none.
 */
export function isUnknown({ record }: MadeCall): boolean {
  const code = record.error?.code;
  return code === 'unknown_tool' || code === 'policy_denied' || code === 'tool_gone';
}

/** Says the errors of a session in the words of the protocol, and nothing of any other. */
export async function answered<Given>(work: () => Promise<Given>): Promise<Given> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof ProtocolError) throw error;
    if (error instanceof InvalidRequestError)
      throw new ProtocolError(ProtocolErrorCode.InvalidRequest, error.message, {
        code: error.code,
      });
    if (error instanceof RunError)
      throw new ProtocolError(ProtocolErrorCode.InternalError, error.message, {
        code: error.result.finishReason,
      });
    logger.error('A request could not be answered.', error);
    throw new ProtocolError(
      ProtocolErrorCode.InternalError,
      'The server could not answer. Its log says why.',
    );
  }
}
