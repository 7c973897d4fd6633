import { randomBytes } from 'node:crypto';
import {
  type CallToolResult,
  createRequestStateCodec,
  inputRequired,
  type InputRequiredResult,
  inputResponse,
  ProtocolError,
  ProtocolErrorCode,
  type ServerContext,
} from '@modelcontextprotocol/server';
import { PendingError, type PendingService, type ToolLoopService } from '@toolloop/core';
import type { CallResult } from '@toolloop/core/contracts';
import { canonicalJson, sha256 } from '@toolloop/core/internal';
import {
  type ApprovalRequest,
  InvalidRequestError,
  type JsonObject,
  type ToolInvocationRecord,
  type ToolMessage,
} from '@toolloop/protocol';
import type { McpPrincipal, McpServerOptions } from './server-options.js';

/** A caller in one of its scopes, which the address names: `/mcp/:scope`. */
export interface McpCaller {
  readonly principal: McpPrincipal;
  /** The same text for all requests of one principal in one scope, and for no others. */
  readonly key: string;
  /** The address of the server as the caller sees it, without a scope; undefined where it has none. */
  readonly address: string | undefined;
}

/** A call as a client asks for it. */
export interface AskedCall {
  readonly caller: McpCaller;
  readonly name: string;
  readonly args: JsonObject;
  /** The session in which the name of the tool means what it means. */
  readonly sessionId: string;
  readonly context: ServerContext;
  /** The kinds of questions that the client can put to its user. */
  readonly asks: { readonly form: boolean; readonly url: boolean };
}

/** The part of a result that clients are shown. */
export interface MadeCall extends Pick<CallResult, 'record' | 'content'> {
  readonly waiting?: { readonly runId: string };
}

/** The answer to a call: its result, or what has to happen first. */
export type Answer = MadeCall | CallToolResult | InputRequiredResult;

/** A call that waits for an approval, as its client keeps it: signed, and good for the same call of the same caller alone. */
interface WaitingState {
  /** The hash of the caller, the tool and the arguments. */
  readonly call: string;
  readonly runId: string;
  readonly approvalId: string;
  /** The question that the client was given. */
  readonly asked: 'form' | 'url';
}

type Waiting = Pick<WaitingState, 'runId' | 'approvalId'>;

/** Returns whether a call was made, so that its result can be shown. */
export function isMade(answer: Answer): answer is MadeCall {
  return 'record' in answer;
}

const MOST_WAITING = 10_000;
const TTL_SECONDS = 3_600;

/** The calls of MCP clients that wait for an approval: how people are asked for it, and how the result finds its way back. */
export class WaitingCalls {
  readonly codec: ReturnType<typeof createRequestStateCodec<WaitingState>>;
  /** The calls that wait, by their hash, so that an equal one later finds the result. Those of clients that keep the state themselves are found by that, in any process. */
  private readonly waiting = new Map<string, Waiting>();

  constructor(
    private readonly loopOf: () => ToolLoopService,
    private readonly pending: PendingService,
    private readonly options: McpServerOptions,
  ) {
    this.codec = createRequestStateCodec<WaitingState>({ key: options.stateKey ?? randomBytes(32), ttlSeconds: TTL_SECONDS });
  }

  /** Makes a call, or takes up an equal one that waits. */
  async make(asked: AskedCall, make: () => Promise<CallResult>): Promise<Answer> {
    const call = hashOf(asked);
    const state = asked.context.mcpReq.requestState<WaitingState>();
    if (state && state.call !== call) throw new ProtocolError(ProtocolErrorCode.InvalidParams, 'The requestState is that of another call.');
    const known = state ?? this.waiting.get(call);
    if (!known) return this.outcome(await make(), { asked, call });
    if (state?.asked === 'form') await this.take(state, asked);
    return this.taken(known, { asked, call, isAnswered: state !== undefined });
  }

  /** Takes an approval up again: makes its call if it was decided on, and asks for it if it was not. */
  private async taken(known: Waiting, { asked, call, isAnswered }: Following & { readonly isAnswered: boolean }): Promise<Answer> {
    const { principal } = asked.caller;
    const view = await this.pending.get(known.approvalId, principal).catch(goneAsUndefined);
    if (view && !view.answer && Date.parse(view.request.expiresAt) > Date.now()) {
      this.keep(call, known);
      return isAnswered ? waitingFor(view.request, this.urlOf(view.request, asked)) : this.ask(view.request, { asked, call });
    }
    const made = await this.continued(known, { asked, call });
    return this.outcome(made, { asked, call });
  }

  private async continued({ runId }: Waiting, { asked, call }: Following): Promise<MadeCall> {
    const { principal } = asked.caller;
    const { actor, tenant } = principal;
    try {
      const { result } = await this.loopOf().resume(runId, { ...this.options.session?.(principal), actor, tenant });
      const { toolCalls, messages, finishReason } = await result;
      const record: ToolInvocationRecord | undefined = toolCalls[0];
      if (!record) throw new InvalidRequestError('unknown_run', 'The call is not known any more.');
      this.waiting.delete(call);
      const told = messages.findLast((message): message is ToolMessage => message.role === 'tool');
      return { record, content: told?.content, ...(finishReason === 'waiting' && { waiting: { runId } }) };
    } catch (error) {
      if (!(error instanceof InvalidRequestError)) throw error;
      this.waiting.delete(call);
      throw new ProtocolError(
        ProtocolErrorCode.InvalidParams,
        'The approval of this call was used already. Make the call anew if it is wanted again.',
      );
    }
  }

  private async outcome(made: MadeCall, { asked, call }: Following): Promise<Answer> {
    if (!made.waiting) return made;
    const [request] = await this.pending.list(asked.caller.principal, { runId: made.waiting.runId, limit: 1 });
    if (!request) return cannotWait(made.waiting.runId);
    this.keep(call, { runId: made.waiting.runId, approvalId: request.approvalId });
    return this.ask(request, { asked, call });
  }

  /** Asks the person in the client where its answer counts, else sends the person to a page; a client that can do neither is told that the call waits. */
  private async ask(request: ApprovalRequest, { asked, call }: Following): Promise<CallToolResult | InputRequiredResult> {
    const { approvalId, runId } = request;
    const { principal } = asked.caller;
    const state = (kind: WaitingState['asked']): Promise<string> => this.codec.mint({ call, runId, approvalId, asked: kind });
    if (asked.asks.form && principal.isPerson === true && (await this.pending.mayDecide(approvalId, principal)))
      return inputRequired({ requestState: await state('form'), inputRequests: { approval: inputRequired.elicit(formOf(request)) } });
    const url = this.urlOf(request, asked);
    if (url === undefined || !asked.asks.url) return waitingFor(request, url);
    const message = `${request.tool} needs an approval: ${request.reason}`;
    return inputRequired({ requestState: await state('url'), inputRequests: { approval: inputRequired.elicitUrl({ message, url }) } });
  }

  /** Takes the answer of the person in the client. One that left it open has not answered; anything but a clear yes is a no. */
  private async take({ approvalId }: WaitingState, { caller: { principal }, context }: AskedCall): Promise<void> {
    const answer = inputResponse(context.mcpReq.inputResponses, 'approval');
    if (answer.kind !== 'elicit' || answer.action === 'cancel' || principal.isPerson !== true) return;
    const isApproved = answer.action === 'accept' && answer.content?.['approve'] === true;
    try {
      await this.pending.decide({ approvalId, decision: isApproved ? 'approve' : 'deny' }, principal);
    } catch (error) {
      // It was decided elsewhere meanwhile, or has expired: then that counts.
      if (!(error instanceof PendingError)) throw error;
    }
  }

  private urlOf(request: ApprovalRequest, { caller: { address } }: AskedCall): string | undefined {
    const { approvalUrl, approver } = this.options;
    if (approvalUrl) return approvalUrl(request);
    return approver && address !== undefined ? `${address}/approve/${request.approvalId}` : undefined;
  }

  private keep(call: string, known: Waiting): void {
    this.waiting.delete(call);
    this.waiting.set(call, known);
    const [oldest] = this.waiting.keys();
    if (this.waiting.size > MOST_WAITING && oldest !== undefined) this.waiting.delete(oldest);
  }
}

interface Following {
  readonly asked: AskedCall;
  readonly call: string;
}

/** An id of a session is part of the call where the tool is one of an instance, whose short names hold in that session alone. */
function hashOf({ caller: { key }, name, args, sessionId }: AskedCall): string {
  return sha256(canonicalJson([key, name, args, /^[a-zA-Z0-9]+_h\d+_/.test(name) ? sessionId : '']));
}

function formOf({ tool, args, reason, presentation, preview }: ApprovalRequest): Parameters<typeof inputRequired.elicit>[0] {
  const question = presentation?.confirm ?? `Allow ${presentation?.label ?? tool}?`;
  const shown = [question, reason, JSON.stringify(args), ...(preview ? [JSON.stringify(preview)] : [])];
  return {
    mode: 'form',
    message: shown.join('\n'),
    requestedSchema: { type: 'object', properties: { approve: { type: 'boolean', title: 'Approve this call' } }, required: ['approve'] },
  };
}

/** A call may wait for what no MCP client can give it, such as a result of the application's own client. */
function cannotWait(runId: string): CallToolResult {
  const text = 'The call waits for something that is not given over MCP. It can be continued in the application.';
  return { content: [{ type: 'text', text }], isError: true, _meta: { 'toolloop/waiting': { runId } } };
}

function waitingFor({ approvalId, runId, tool, reason, expiresAt }: ApprovalRequest, url: string | undefined): CallToolResult {
  const where = url === undefined ? '' : ` A person approves it at ${url}`;
  const text = `The call of ${tool} waits for an approval (${approvalId}): ${reason}${where} Make the same call again later to fetch its result.`;
  const waiting = { approvalId, runId, expiresAt, ...(url !== undefined && { url }) };
  return { content: [{ type: 'text', text }], isError: true, _meta: { 'toolloop/waiting': waiting } };
}

function goneAsUndefined(error: unknown): undefined {
  if (!(error instanceof PendingError)) throw error;
}
