import { Inject } from '@nestjs/common';
import type { LoopEvent, LoopResult, ToolSpec } from '@toolloop/protocol';
import type { Observable } from 'rxjs';
import type {
  LoopProfile,
  LoopRequest,
  ResumeRequest,
  RunHandle,
} from '../contracts/loop-request.js';
import type { CallRequest, CallResult, SessionRequest, ToolSession } from '../contracts/session.js';
import type { NamedProfile } from '../contracts/durable-runs.js';
import type { RegisteredActor } from '../contracts/registered-actor.js';
import type { RunContext } from '../contracts/tool-call.js';
import type { RunOpener } from '../run/run-opener.js';
import type { ListingRequest, ToolExplanation } from '../run/run-preparation.js';
import type {
  CallExplanation,
  ExplainedCallRequest,
  ExplainRequest,
} from '../plugins/operators/explanations.js';
import type { Sessions } from '../plugins/sessions/sessions.js';

/**
 * Runs the loop: hand it a prompt and the actor it acts for. A request that cannot be run is
 * refused at once, with an `InvalidRequestError` or a `ConfigurationError`.
 * `@InjectToolLoop('support')` injects the service of a named loop, whose options are the defaults
 * of its runs.
 */
export class ToolLoopService<Actor = RegisteredActor> {
  constructor(
    private readonly runs: RunOpener,
    private readonly sessions: Sessions,
    private readonly profile: LoopProfile,
    private readonly name?: string,
  ) {}

  /**
   * Opens a run, which starts when it is first read.
   *
   * @example
   * for await (const event of loop.open({ prompt, actor, tenant }))
   *   response.write(JSON.stringify(event));
   */
  open<Output = unknown>(request: LoopRequest<Output, Actor>): RunHandle<Output> {
    return this.runs.open(request, this.named);
  }

  /**
   * Runs to the end. Rejects with a `RunError`, which carries the partial result, for `error` and
   * `aborted`.
   *
   * @example
   * const { text } = await loop.run({ prompt: 'Refund order 7.', actor, tenant });
   */
  async run<Output = unknown>(request: LoopRequest<Output, Actor>): Promise<LoopResult<Output>> {
    return this.open(request).result;
  }

  /**
   * Returns the events of a run, which starts with its one subscription. Unsubscribing aborts the
   * run; a durable run continues.
   *
   * @example
   * return loop.stream({ prompt, actor, tenant }).pipe(map((data) => ({ data })));
   */
  stream(request: LoopRequest<unknown, Actor>): Observable<LoopEvent> {
    return this.open(request).events$;
  }

  /**
   * Continues a run that ended as `waiting`, for the same actor: approved calls are made, denials
   * are told to the model, and for unanswered calls it waits again. Rejects with an
   * `InvalidRequestError` (`unknown_run`) if the run is not this actor's to resume. If two callers
   * resume it at once, one continues; for the other `result` rejects and `events$` errors in the
   * same way.
   *
   * @example
   * const { result } = await loop.resume(runId, { actor, tenant });
   */
  resume<Output = unknown>(
    runId: string,
    request: ResumeRequest<Output, Actor>,
  ): Promise<RunHandle<Output>> {
    return this.runs.resume(runId, request, this.profile);
  }

  /**
   * Makes one call of one tool without a model, through every stage that a model's call passes:
   * policy, approval, audit and hooks. What a model could do wrong with a call is in the record of
   * the result.
   *
   * The arguments count as written by a model that has read untrusted and private content, since
   * they may come from a client. A call that waits for an approval is a run that
   * `RunService.resume` continues.
   *
   * @throws {InvalidRequestError} For a request without a tool, an actor or a tenant, and for
   *   arguments that are no JSON.
   * @throws {RunError} For a call that was aborted, or that a store or a part of the application
   *   has kept from being made. `message` names a call whose outcome is unknown.
   *
   * @example
   * const { ui } = await loop.call({
   *   tool: 'crm__searchCustomers',
   *   args: { name: 'Ada' },
   *   actor,
   *   tenant,
   * });
   */
  async call(request: CallRequest<Actor>): Promise<CallResult> {
    return this.sessions.call(request, this.named);
  }

  /**
   * Opens a session: several calls without a model, which share the tools that results bring, the
   * names of entities, budgets and what was read. Resolves once the tenant and the actor's account
   * are known and the tools' own `canCall` were asked, so that `tools` is a plain map.
   *
   * With a `scope`, what the session reads, spends and is refused is kept in an account, which the
   * next session of the same actor takes over. Without one, arguments count as those of `call` do.
   *
   * @throws {InvalidRequestError} For a request without an actor or a tenant, and
   *   `too_many_sessions` beyond the limits of `forRoot({ sessions })`.
   *
   * @example
   * const session = await loop.session({
   *   actor: user,
   *   tenant: user.tenantId,
   *   tools: ['crm__*'],
   *   scope: 'desk',
   * });
   * const { ui } = await session.call('crm__searchCustomers', { name: 'Ada' });
   */
  async session(request: SessionRequest<Actor>): Promise<ToolSession> {
    return this.sessions.session(request, this.named);
  }

  /**
   * Finds an open session of an actor in this process, by an id that a client may have sent.
   *
   * @throws {InvalidRequestError} `unknown_session` for one that is closed, and in the same words
   *   for one of another actor or tenant.
   *
   * @example
   * const session = loop.findSession(request.headers['mcp-session-id'], {
   *   actor: user,
   *   tenant: user.tenantId,
   * });
   */
  findSession(sessionId: string, who: Pick<RunContext<Actor>, 'actor' | 'tenant'>): ToolSession {
    return this.sessions.find(sessionId, who);
  }

  /**
   * Explains why a run of this actor would be offered a tool or not, and could call it or not:
   * every reason in the order in which it is asked. For operators, and each use is in the audit.
   *
   * @throws {OperatorError} Where `forRoot({ operators })` does not let the operator `explain`.
   * @throws {InvalidRequestError} For an unknown tool, with the closest ids.
   *
   * @example
   * const { isListed, reasons } = await loop.explain('crm__deleteCustomer', {
   *   actor: clerk,
   *   tenant: 'acme',
   *   operator: { actor: user, tenant: user.tenantId },
   * });
   */
  explain(tool: string, request: ExplainRequest<Actor>): Promise<ToolExplanation> {
    return this.sessions.explanations.explain(tool, request, this.profile);
  }

  /**
   * Explains every tool as this actor would be offered it, to an operator who looks as them. It is
   * in the audit once, with both people.
   *
   * @throws {OperatorError} Where `forRoot({ operators })` does not let the operator `viewAs`.
   *
   * @example
   * const tools = await loop.viewAs({
   *   actor: clerk,
   *   tenant: 'acme',
   *   operator: { actor: user, tenant: user.tenantId },
   * });
   */
  viewAs(request: ExplainRequest<Actor>): Promise<readonly ToolExplanation[]> {
    return this.sessions.explanations.viewAs(request, this.profile);
  }

  /**
   * Tells what the audit has about one call: why it was asked about or denied, what the run had
   * read, who decided. For operators. It reads the whole chain of the tenant.
   *
   * @throws {OperatorError} Where `forRoot({ operators })` does not let the operator `explain`.
   * @throws {InvalidRequestError} For a call that the audit of the tenant does not have, and
   *   without an audit.
   *
   * @example
   * const { events } = await loop.explainCall({
   *   runId,
   *   toolCallId,
   *   operator: { actor: user, tenant: user.tenantId },
   * });
   */
  explainCall(request: ExplainedCallRequest<Actor>): Promise<CallExplanation> {
    return this.sessions.explanations.explainCall(request);
  }

  private get named(): NamedProfile {
    const { profile, name } = this;
    return { profile, ...(name !== undefined && { name }) };
  }

  /**
   * Lists the tools that a run of this actor would start with. Rejects with the error that `open`
   * would throw.
   *
   * @example
   * const ids = (await loop.list({ actor, tenant })).map(({ id }) => id);
   */
  list(request: ListingRequest<Actor>): Promise<readonly ToolSpec[]> {
    return this.runs.list(request, this.profile);
  }
}

/**
 * Returns the token of a named loop, for `overrideProvider` and `app.get`. It is a text that
 * explains itself: Nest shows it if there is no such loop.
 */
export function toolLoopToken(name: string): string {
  return `loop ${JSON.stringify(name)} of ToolLoopModule.forFeature({ loops: { … } })`;
}

/** Injects the `ToolLoopService` of a named loop, in any module of the application. */
export function InjectToolLoop(name: string): ParameterDecorator & PropertyDecorator {
  return Inject(toolLoopToken(name));
}
