import { randomBytes } from 'node:crypto';
import {
  type CallToolResult,
  createRequestStateCodec,
  inputRequired,
  type InputRequest,
  type InputRequiredResult,
  MissingRequiredClientCapabilityError,
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
  type PendingReply,
  type ToolInvocationRecord,
  type ToolMessage,
} from '@toolloop/protocol';
import {
  answerIn,
  approvalForm,
  type ClientAbilities,
  keyOf,
  missingFor,
  type OpenRequest,
  questionInput,
} from './client-questions.js';
import type { McpPrincipal, McpServerOptions } from './server-options.js';

/**
 * The calls of MCP clients that wait for people: how those are asked, and how the result finds its
 * way back.
 */
export class WaitingCalls {
  readonly codec: ReturnType<typeof createRequestStateCodec<WaitingState>>;
  /**
   * The runs of the calls that wait, by the hash of the call, so that an equal one later finds the
   * result. Those of clients that keep the state themselves are found by that, in any process.
   */
  private readonly waiting = new Map<string, string>();

  constructor(
    private readonly loopOf: () => ToolLoopService,
    private readonly pending: PendingService,
    private readonly options: McpServerOptions,
  ) {
    this.codec = createRequestStateCodec<WaitingState>({
      key: options.stateKey ?? randomBytes(32),
      ttlSeconds: TTL_SECONDS,
    });
  }

  /** Makes a call, or takes up an equal one that waits. */
  async make(asked: AskedCall, make: () => Promise<CallResult>): Promise<Answer> {
    const hasState = asked.context.mcpReq.requestState<WaitingState>() !== undefined;
    if (hasState || this.waiting.size > 0) {
      const following = followingOf(asked);
      const runId = following.state?.runId ?? this.waiting.get(following.call);
      return runId === undefined
        ? this.outcome(await make(), following)
        : this.taken(runId, following);
    }
    // The hash of a call costs as much as a short one, and most wait for no one.
    const made = await make();
    return made.waiting ? this.outcome(made, followingOf(asked)) : made;
  }

  private async outcome(made: MadeCall, following: Following): Promise<Answer> {
    if (!made.waiting) return made;
    const { runId } = made.waiting;
    const open = await this.openIn(runId, following.asked);
    if (open.length === 0) return cannotWait(runId);
    this.keep(following.call, runId);
    return this.taken(runId, following, open);
  }

  /**
   * Takes a call up that waits: takes what its client has answered, asks for what is still open,
   * and continues the call where nothing is.
   */
  private async taken(
    runId: string,
    following: Following,
    known?: readonly OpenRequest[],
  ): Promise<Answer> {
    const { asked } = following;
    const before = known ?? (await this.openIn(runId, asked));
    const answered = await this.take(before, following);
    const open = answered.size > 0 ? await this.openIn(runId, asked) : before;
    if (open.length === 0) return this.outcome(await this.continued(runId, following), following);
    this.keep(following.call, runId);
    return this.ask(open, answered, following);
  }

  /** Lists what a run asks of people, and which they have not answered yet. */
  private async openIn(
    runId: string,
    { caller: { principal } }: AskedCall,
  ): Promise<readonly OpenRequest[]> {
    const views = await this.pending.inbox(principal, { runId });
    return views.flatMap((view) =>
      view.kind === 'approval' || view.kind === 'question' ? [view] : [],
    );
  }

  private async continued(runId: string, { asked, call }: Following): Promise<MadeCall> {
    const { principal } = asked.caller;
    const { actor, tenant } = principal;
    try {
      const { result } = await this.loopOf().resume(runId, {
        ...this.options.session?.(principal),
        actor,
        tenant,
      });
      const { toolCalls, messages, finishReason } = await result;
      const record: ToolInvocationRecord | undefined = toolCalls[0];
      if (!record) throw new InvalidRequestError('unknown_run', 'The call is not known any more.');
      this.waiting.delete(call);
      const told = messages.findLast((message): message is ToolMessage => message.role === 'tool');
      return {
        record,
        content: told?.content,
        ...(finishReason === 'waiting' && { waiting: { runId } }),
      };
    } catch (error) {
      if (!(error instanceof InvalidRequestError)) throw error;
      this.waiting.delete(call);
      throw new ProtocolError(
        ProtocolErrorCode.InvalidParams,
        'What this call waited for was used already. Make the call anew if it is wanted again.',
      );
    }
  }

  /**
   * Asks in the client what its user or its model may answer, sends people to a page for the rest;
   * a client that can do neither is told that the call waits.
   */
  private async ask(
    open: readonly OpenRequest[],
    answered: ReadonlySet<string>,
    { asked, call }: Following,
  ): Promise<CallToolResult | InputRequiredResult> {
    const [first] = open;
    const inputRequests: Record<string, InputRequest> = {};
    const forms: string[] = [];
    for (const one of open.filter(({ id }) => !answered.has(id))) {
      const input = await this.inputFor(one, asked);
      if (!input) continue;
      inputRequests[keyOf(one)] = input;
      if (input.method !== 'elicitation/create' || input.params.mode !== 'url') forms.push(one.id);
    }
    const state = { call, runId: first?.request.runId ?? '', asked: forms };
    if (Object.keys(inputRequests).length > 0)
      return inputRequired({ requestState: await this.codec.mint(state), inputRequests });
    const missing = open
      .map((one) => missingFor(one, asked.abilities()))
      .find((capability) => capability !== undefined);
    if (missing) throw new MissingRequiredClientCapabilityError({ requiredCapabilities: missing });
    return waitingFor(
      open,
      open.flatMap((one) =>
        one.kind === 'approval' ? (this.urlOf(one.request, asked) ?? []) : [],
      )[0],
    );
  }

  /**
   * Returns a request as this client can be sent it: a question to whom it may answer, an approval
   * to a person whose yes counts, any other as the address of a page.
   */
  private async inputFor(open: OpenRequest, asked: AskedCall): Promise<InputRequest | undefined> {
    const { caller } = asked;
    const { principal } = caller;
    const abilities = asked.abilities();
    const mayAnswer = (): Promise<boolean> => this.pending.mayDecide(open.id, principal);
    if (open.kind === 'question')
      return (await mayAnswer()) ? questionInput(open.request, abilities) : undefined;
    const { request } = open;
    if (abilities.form && principal.isPerson === true && (await mayAnswer()))
      return approvalForm(request);
    const url = this.urlOf(request, { caller });
    if (url === undefined || !abilities.url) return undefined;
    return inputRequired.elicitUrl({
      message: `${request.tool} needs an approval: ${request.reason}`,
      url,
    });
  }

  /**
   * Takes what a client has answered, and returns what that was about. Each answer is taken once,
   * also where the call asks under the same name again.
   *
   * @throws {ProtocolError} For an answer that does not have the form that was asked for.
   */
  private async take(
    open: readonly OpenRequest[],
    following: Following,
  ): Promise<ReadonlySet<string>> {
    const answered = new Set<string>();
    for (const one of open) {
      const answer = answerIn(one, following.responses);
      // Without the state an approval was not asked for.
      if (answer === undefined || (one.kind === 'approval' && !following.state)) continue;
      answered.add(one.id);
      Reflect.deleteProperty(following.responses, keyOf(one));
      // A client that opened a page has decided nothing.
      if (answer !== 'open' && countsAsAnswer(one, following))
        await this.record(answer, following.asked.caller.principal);
    }
    return answered;
  }

  /**
   * Records an answer. One that was given elsewhere meanwhile, or comes too late, changes nothing:
   * then that counts.
   */
  private async record(answer: PendingReply, principal: McpPrincipal): Promise<void> {
    try {
      await this.pending.answer(answer, principal);
    } catch (error) {
      if (!(error instanceof PendingError)) throw error;
      if (error.code === 'invalid_answer')
        throw new ProtocolError(ProtocolErrorCode.InvalidParams, error.message);
    }
  }

  private urlOf(
    request: ApprovalRequest,
    { caller: { address } }: Pick<AskedCall, 'caller'>,
  ): string | undefined {
    const { approvalUrl, approver } = this.options;
    if (approvalUrl) return approvalUrl(request);
    const base = approver && address();
    return base === undefined ? undefined : `${base}/approve/${request.approvalId}`;
  }

  private keep(call: string, runId: string): void {
    this.waiting.delete(call);
    this.waiting.set(call, runId);
    const [oldest] = this.waiting.keys();
    if (this.waiting.size > MOST_WAITING && oldest !== undefined) this.waiting.delete(oldest);
  }
}

/** A caller in one of its scopes, which the address names: `/mcp/:scope`. */
export interface McpCaller {
  readonly principal: McpPrincipal;
  /** The same text for all requests of one principal in one scope, and for no others. */
  readonly key: string;
  /**
   * Returns the address of the server as the caller sees it, without a scope; undefined where it
   * has none.
   */
  readonly address: () => string | undefined;
}

/** A call as a client asks for it. */
export interface AskedCall {
  readonly caller: McpCaller;
  readonly name: string;
  readonly args: JsonObject;
  /** The session in which the name of the tool means what it means. */
  readonly sessionId: string;
  readonly context: ServerContext;
  /** Returns what its client can be asked. */
  readonly abilities: () => ClientAbilities;
}

/** The part of a result that clients are shown. */
export interface MadeCall extends Pick<CallResult, 'record' | 'content'> {
  readonly waiting?: { readonly runId: string };
}

/** The answer to a call: its result, or what has to happen first. */
export type Answer = MadeCall | CallToolResult | InputRequiredResult;

/** Returns whether a call was made, so that its result can be shown. */
export function isMade(answer: Answer): answer is MadeCall {
  return 'record' in answer;
}

/**
 * A call that waits, as its client keeps it: signed, and good for the same call of the same caller
 * alone.
 */
interface WaitingState {
  /** The hash of the caller, the tool and the arguments. */
  readonly call: string;
  readonly runId: string;
  /**
   * The ids of what the client was asked in forms: its answer to any other approval counts for
   * nothing.
   */
  readonly asked: readonly string[];
}

const MOST_WAITING = 10_000;
const TTL_SECONDS = 3_600;

interface Following {
  readonly asked: AskedCall;
  readonly call: string;
  readonly state: WaitingState | undefined;
  /** The answers of the client that were not taken yet. */
  readonly responses: Record<string, unknown>;
}

/** @throws {ProtocolError} For the state of another call. */
function followingOf(asked: AskedCall): Following {
  const { requestState, inputResponses } = asked.context.mcpReq;
  const call = hashOf(asked);
  const state = requestState<WaitingState>();
  if (state && state.call !== call)
    throw new ProtocolError(
      ProtocolErrorCode.InvalidParams,
      'The requestState is that of another call.',
    );
  return { asked, call, state, responses: { ...inputResponses } };
}

/**
 * Returns whether a client's answer counts: to a question always, to an approval only from a person
 * who was asked for it in a form. A client could answer an approval that it was not asked for.
 */
function countsAsAnswer({ kind, id }: OpenRequest, { state, asked }: Following): boolean {
  return (
    kind !== 'approval' ||
    (state?.asked.includes(id) === true && asked.caller.principal.isPerson === true)
  );
}

/**
 * An id of a session is part of the call where the tool is one of an instance, whose short names
 * hold in that session alone.
 */
function hashOf({ caller: { key }, name, args, sessionId }: AskedCall): string {
  return sha256(
    canonicalJson([key, name, args, /^[a-zA-Z0-9]+_h\d+_/.test(name) ? sessionId : '']),
  );
}

/**
 * A call may wait for what no MCP client can give it, such as a result of the application's own
 * client.
 */
function cannotWait(runId: string): CallToolResult {
  const text =
    'The call waits for something that is not given over MCP. It can be continued in the application.';
  return {
    content: [{ type: 'text', text }],
    isError: true,
    _meta: { 'toolloop/waiting': { runId } },
  };
}

function waitingFor(open: readonly OpenRequest[], url: string | undefined): CallToolResult {
  const where = url === undefined ? '' : ` A person approves it at ${url}`;
  const texts = open.map(({ kind, id, request }) =>
    kind === 'approval'
      ? `The call of ${request.tool} waits for an approval (${id}): ${request.reason}${where}`
      : `The call of ${request.tool} waits for an answer (${id}): ${request.question}`,
  );
  const [first] = open;
  const named = first?.kind === 'approval' ? { approvalId: first.id } : { questionId: first?.id };
  const waiting = {
    ...named,
    runId: first?.request.runId,
    expiresAt: first?.request.expiresAt,
    ...(url !== undefined && { url }),
  };
  const text = `${texts.join(' ')} Make the same call again later to fetch its result.`;
  return {
    content: [{ type: 'text', text }],
    isError: true,
    _meta: { 'toolloop/waiting': waiting },
  };
}
