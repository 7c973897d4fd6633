/* oxlint-disable typescript/no-deprecated -- McpServer, which is meant instead of Server, compiles the schemas of all tools for each request */
import { Logger } from '@nestjs/common';
import { ProtocolError, ProtocolErrorCode, Server } from '@modelcontextprotocol/server';
import type { CallResult, ToolSession } from '@toolloop/core/contracts';
import { toJsonObject } from '@toolloop/core/internal';
import { InvalidRequestError, isObject, type JsonObject, type JsonValue, RunError } from '@toolloop/protocol';
import type { McpServerOptions } from './server-options.js';
import { failureIn, toWireResult, toWireTool } from './tool-wire.js';
import { isMade, type MadeCall, type McpCaller, type WaitingCalls } from './waiting-calls.js';

const logger = new Logger('McpServer');

/** A server's surroundings: whom it answers, and with what. */
export interface Serving {
  readonly options: Pick<McpServerOptions, 'name' | 'version' | 'instructions'>;
  readonly caller: McpCaller;
  /** Opens the session with the first request that needs it. */
  readonly sessionOf: () => Promise<ToolSession>;
  readonly waiting: WaitingCalls;
}

/**
 * Makes a protocol server over one session: for one request in the era of 2026, for as long as the client stays in that of 2025. It decides nothing: every listing and
 * every call is the session's.
 */
export function toolServer({ options, caller, sessionOf, waiting }: Serving): Server {
  const { name = 'toolloop', version = '0.0.0', instructions } = options;
  const server = new Server(
    { name, version },
    {
      capabilities: { tools: { listChanged: true } },
      requestState: { verify: (state, context) => waiting.codec.verify(state, context) },
      ...(instructions !== undefined && { instructions }),
    },
  );
  server.setRequestHandler('tools/list', async () => {
    const session = await answered(sessionOf);
    const specs = await answered(() => session.list());
    return { tools: specs.map((spec) => toWireTool(session.describe(spec.id) ?? { spec })) };
  });
  server.setRequestHandler('tools/call', async ({ params }, context) => {
    const session = await answered(sessionOf);
    const { mcpReq } = context;
    const onProgress = progressTo(mcpReq);
    const args = toJsonObject(params.arguments ?? {});
    const { form, url } = server.getClientCapabilities()?.elicitation ?? {};
    const isAsking = server.getClientCapabilities()?.elicitation !== undefined;
    const asked = {
      caller,
      context,
      args,
      name: params.name,
      sessionId: session.sessionId,
      asks: { form: form !== undefined || (isAsking && url === undefined), url: url !== undefined },
    };
    const make = (): Promise<CallResult> => session.call(params.name, args, { signal: mcpReq.signal, ...(onProgress && { onProgress }) });
    const made = await answered(() => waiting.make(asked, make));
    if (!isMade(made)) return made;
    assertKnown(made, params.name);
    const outputSchema = session.describe(params.name)?.spec.outputSchema;
    return server.projectCallToolResult(toWireResult(made, outputSchema), outputSchema && { ...outputSchema });
  });
  return server;
}

interface ProgressRequest {
  readonly _meta?: { readonly progressToken?: string | number };
  readonly notify: (notification: { method: string; params: Record<string, unknown> }) => Promise<void>;
}

/** Tells a client of progress that it has asked to be told of. A number is the progress itself; of anything else the words are told, and counted. */
function progressTo({ _meta, notify }: ProgressRequest): ((value: JsonValue) => void) | undefined {
  const progressToken = _meta?.progressToken;
  if (progressToken === undefined) return undefined;
  let told = 0;
  return (value) => {
    told += 1;
    // A client that is gone needs no progress; its call is aborted elsewhere.
    void notify({ method: 'notifications/progress', params: { progressToken, ...progressIn(value, told) } }).catch(() => undefined);
  };
}

function progressIn(value: JsonValue, told: number): JsonObject {
  if (typeof value === 'number') return { progress: value };
  if (typeof value === 'string') return { progress: told, message: value };
  if (!isObject(value)) return { progress: told };
  const { progress, total, message } = value;
  if (typeof progress !== 'number') return { progress: told, message: JSON.stringify(value) };
  return { progress, ...(typeof total === 'number' && { total }), ...(typeof message === 'string' && { message }) };
}

/** @throws {ProtocolError} For a tool that the session does not have, in the same words whether policy hides it or there is none. */
function assertKnown(made: MadeCall, name: string): void {
  const code = made.record.error?.code;
  if (code !== 'unknown_tool' && code !== 'policy_denied' && code !== 'tool_gone') return;
  throw new ProtocolError(ProtocolErrorCode.InvalidParams, failureIn(made) ?? `Unknown tool: ${name}`);
}

/** Says the errors of a session in the words of the protocol, and nothing of any other. */
async function answered<Answer>(work: () => Promise<Answer>): Promise<Answer> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof ProtocolError) throw error;
    if (error instanceof InvalidRequestError)
      throw new ProtocolError(ProtocolErrorCode.InvalidRequest, error.message, { code: error.code });
    if (error instanceof RunError)
      throw new ProtocolError(ProtocolErrorCode.InternalError, error.message, { code: error.result.finishReason });
    logger.error('A request could not be answered.', error);
    throw new ProtocolError(ProtocolErrorCode.InternalError, 'The server could not answer. Its log says why.');
  }
}
