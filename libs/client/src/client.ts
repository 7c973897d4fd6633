import type {
  Amendment,
  AnsweredRequest,
  Approval,
  ApprovalGroup,
  Ask,
  ChangedPolicy,
  ConversationPage,
  ConversationSummary,
  DecisionReach,
  ExplainedCall,
  ExplainedTool,
  ExplanationSubject,
  JsonObject,
  ListedSource,
  ListedTool,
  LoopEvent,
  MadeCall,
  PendingReply,
  PolicyChangeOrder,
  PutPolicies,
  RehearsalChoices,
  RehearsedRun,
  ReplayedPolicies,
  Run,
  RunSelection,
  SourceReport,
  Stop,
  StopOrder,
  Undoing,
  UsageSelection,
  UsageSums,
  ViewedActor,
  WaitingRequest,
} from '@toolloop/protocol';
import { ConnectionLostError, readHttpError } from './client.error.js';
import {
  type AskOptions,
  followRun,
  type FollowTerms,
  lookUntilMoved,
  type ReadOptions,
  readToEnd,
  type ReconnectOptions,
} from './event-stream.js';

/** Options of {@link ToolLoopClient}. */
export interface ClientOptions {
  /**
   * The address under which the application has its routes, such as `https://desk.example/api`; in
   * a browser a path such as `/api` will do.
   */
  readonly url: string;
  /**
   * Headers of every request, such as `authorization`. The function is asked for each attempt, so
   * that a stream that is opened again has a fresh token.
   */
  readonly headers?: () =>
    Readonly<Record<string, string>> | Promise<Readonly<Record<string, string>>>;
  /** Sends cookies to another origin too, as in `fetch`. @default 'same-origin' */
  readonly credentials?: RequestCredentials;
  /** @default the platform's own */
  readonly fetch?: typeof fetch;
  readonly reconnect?: ReconnectOptions;
}

/** A selection of what waits. */
export interface PendingSelection {
  /** @default every kind */
  readonly kind?: WaitingRequest['kind'];
  /** @default every run */
  readonly runId?: string;
  readonly limit?: number;
  /** The id of the last one of the previous page. */
  readonly after?: string;
}

/** The most entries that a server puts on a page. */
const MOST_LISTED = 1_000;

interface RequestParts {
  readonly method?: 'GET' | 'POST' | 'DELETE';
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string>>;
  readonly query?: Readonly<Record<string, string | number | undefined>>;
  readonly signal?: AbortSignal | undefined;
}

/**
 * The routes of a Toolloop application, for browsers and Node.js: questions with their events,
 * runs, what waits for people, tools, conversations. It keeps nothing between two requests, so that
 * one client serves a whole page.
 *
 * Every method throws a `ToolLoopHttpError` where the server refuses.
 *
 * @example
 * const client = new ToolLoopClient({
 *   url: 'http://127.0.0.1:3000',
 *   headers: () => ({ authorization: 'Bearer demo-alice' }),
 * });
 * for await (const event of client.ask({ message: 'What is the average spend of John Smith?' })) {
 *   if (event.type === 'text-delta') process.stdout.write(event.text);
 * }
 */
export class ToolLoopClient {
  constructor(private readonly options: ClientOptions) {}

  /**
   * Asks, and reads the events of the answer: up to the run's end, or until it waits for a person
   * where it is not durable. Leaving the loop early stops such a run.
   *
   * @throws ConnectionLostError where the connection breaks, and could not be opened again where
   *   the run is durable.
   */
  async *ask(ask: Ask, options: AskOptions = {}): AsyncGenerator<LoopEvent, void, undefined> {
    const { durable = false, requestId = crypto.randomUUID(), leaveWhenWaiting, signal } = options;
    const headers = { 'idempotency-key': requestId };
    const send = (): Promise<Response> =>
      this.send('/chat', { method: 'POST', body: { ...ask, durable }, headers, signal });
    if (!durable) return yield* this.readOwn(await send(), signal);
    let runId: string | undefined;
    const open = (after: number): Promise<Response> =>
      runId === undefined ? send() : this.openEvents(runId, after, signal);
    const terms = this.followTerms(() => runId ?? '', { leaveWhenWaiting, signal });
    for await (const event of followRun(open, 0, terms)) {
      runId = event.runId;
      yield event;
    }
  }

  /** Starts a durable run without reading it. The same `requestId` leads to the same run. */
  start(
    ask: Ask,
    { requestId, signal }: Pick<AskOptions, 'requestId' | 'signal'> = {},
  ): Promise<Run> {
    return this.json('/runs', { method: 'POST', body: ask, headers: keyed(requestId), signal });
  }

  /** Lists the actor's runs, the newest first, a page at a time. */
  runs({ status, actorId, ofTenant, limit, after }: RunSelection = {}): Promise<readonly Run[]> {
    return this.json('/runs', {
      query: { status, actorId, limit, after, ...(ofTenant && { ofTenant: 'true' }) },
    });
  }

  run(runId: string): Promise<Run> {
    return this.json(route`/runs/${runId}`);
  }

  /**
   * Reads the events of a durable run, those that there are and those that come, until it has
   * ended; each once, also where the connection is lost meanwhile.
   *
   * @throws ConnectionLostError where it could not be opened again.
   */
  events(
    runId: string,
    { after = 0, ...options }: ReadOptions = {},
  ): AsyncGenerator<LoopEvent, void, undefined> {
    const open = (last: number): Promise<Response> => this.openEvents(runId, last, options.signal);
    const terms = this.followTerms(() => runId, options);
    return followRun(open, after, terms);
  }

  /**
   * Resumes a run whose question was answered, and reads its further events. A durable run
   * continues by itself, and is read with `events`.
   *
   * @throws ConnectionLostError where the connection breaks.
   */
  async *resume(runId: string, signal?: AbortSignal): AsyncGenerator<LoopEvent, void, undefined> {
    const response = await this.send(route`/runs/${runId}/resume`, { method: 'POST', signal });
    yield* readToEnd(response, this.options.reconnect?.idleMs, signal);
  }

  /** Answers what a run asks: an approval, a question, or a call that the client was to make. */
  answer(runId: string, reply: PendingReply): Promise<AnsweredRequest> {
    return this.json(route`/runs/${runId}/answer`, { method: 'POST', body: reply });
  }

  cancel(runId: string, reason?: string): Promise<Run> {
    return this.json(route`/runs/${runId}/cancel`, { method: 'POST', body: { reason } });
  }

  /**
   * Starts a run that shares the steps of another up to one of them; 0 for none. What the shared
   * steps did is not done again.
   */
  fork(runId: string, step: number, requestId?: string): Promise<Run> {
    return this.json(route`/runs/${runId}/fork`, {
      method: 'POST',
      body: { step },
      headers: keyed(requestId),
    });
  }

  /** Undoes what an ended run did, as far as that can be undone. Call it again to continue. */
  undo(runId: string, reason?: string): Promise<Undoing> {
    return this.json(route`/runs/${runId}/undo`, { method: 'POST', body: { reason } });
  }

  /** Lists to an operator the models and the policies with which runs can be rehearsed. */
  rehearsalChoices(): Promise<RehearsalChoices> {
    return this.json('/rehearsals');
  }

  /**
   * Rehearses a run. With a model, `rehearsedBy` is a run that `rehearsal` compares as it comes.
   */
  rehearse(runId: string, terms: Pick<RehearsedRun, 'model' | 'policy'>): Promise<RehearsedRun> {
    return this.json(route`/runs/${runId}/rehearse`, { method: 'POST', body: terms });
  }

  rehearsal(runId: string, policy?: string): Promise<RehearsedRun> {
    return this.json(route`/runs/${runId}/rehearsal`, { query: { policy } });
  }

  /**
   * Lists the calls that wait for a yes or no: those of the actor's own runs, and those that the
   * actor may decide. A page at a time, the oldest first.
   */
  approvals({ runId, limit, after }: Omit<PendingSelection, 'kind'> = {}): Promise<
    readonly Approval[]
  > {
    return this.json('/approvals', { query: { runId, limit, after } });
  }

  /**
   * Lists the same calls by their kind and step, those of all pages: `decide` takes one decision of
   * a group, with the ids of the others in `also`.
   */
  async approvalGroups(): Promise<readonly ApprovalGroup[]> {
    const groups = new Map<string, ApprovalGroup>();
    for await (const { group, calls, ...rest } of this.pagesOf<ApprovalGroup>('/approvals/groups'))
      groups.set(group, { ...rest, group, calls: [...(groups.get(group)?.calls ?? []), ...calls] });
    return [...groups.values()];
  }

  approval(approvalId: string): Promise<Approval> {
    return this.json(route`/approvals/${approvalId}`);
  }

  /**
   * Decides about a call, with changes to it where its policy lets people make some, and about
   * others of its group. Of two people who decide at once, one is refused with `already_answered`;
   * `approval` tells who was first.
   */
  decide(
    approvalId: string,
    decision: 'approve' | 'deny',
    reason?: string,
    amend?: Amendment,
    reach: DecisionReach = {},
  ): Promise<Approval> {
    return this.json(route`/approvals/${approvalId}`, {
      method: 'POST',
      body: { decision, reason, amend, ...reach },
    });
  }

  /** Lists the tools that the actor's model may call from the first step. */
  tools(): Promise<readonly ListedTool[]> {
    return this.json('/tools');
  }

  /**
   * Calls a tool by hand, through the same checks as a model's call. A call that fails is no error
   * here: its record says why.
   */
  call(
    tool: string,
    args: JsonObject = {},
    { requestId, signal }: Pick<AskOptions, 'requestId' | 'signal'> = {},
  ): Promise<MadeCall> {
    return this.json(route`/tools/${tool}`, {
      method: 'POST',
      body: { args },
      headers: keyed(requestId),
      signal,
    });
  }

  /**
   * Lists everything that waits for the actor: approvals, questions, calls that a client is to
   * make, rehearsals; the oldest first, 100 by default and 1,000 at most.
   */
  pending({ kind, runId, limit, after }: PendingSelection = {}): Promise<
    readonly WaitingRequest[]
  > {
    return this.json('/pending', { query: { kind, runId, limit, after } });
  }

  /**
   * Explains to an operator why an actor is offered a tool or not; with a run and a call, what
   * became of that call.
   */
  explain(
    tool: string,
    { actorId, runId, toolCallId }: ExplanationSubject = {},
  ): Promise<ExplainedTool | ExplainedCall> {
    return this.json(route`/explain/${tool}`, { query: { actorId, runId, toolCallId } });
  }

  /** Lists to an operator the kill switches that are on in the tenant. */
  stops(): Promise<readonly Stop[]> {
    return this.json('/policies/stops');
  }

  /**
   * Stops a tool, a source or everything of the tenant: what waits for it is held until it is
   * released.
   */
  stop(target: StopOrder, reason: string): Promise<Stop> {
    return this.json('/policies/stops', { method: 'POST', body: { ...target, reason } });
  }

  async release(stopId: string, reason: string): Promise<void> {
    await this.send(route`/policies/stops/${stopId}/release`, { method: 'POST', body: { reason } });
  }

  /**
   * Lists to an operator the versions of the tenant's policies, the newest first; `before` is the
   * number of the last one of the previous page.
   */
  policies(before?: number): Promise<readonly PutPolicies[]> {
    return this.json('/policies', { query: { before } });
  }

  /** Reads a version with its policies; 0 is what the application started with. */
  policy(number: number): Promise<PutPolicies> {
    return this.json(`/policies/${number}`);
  }

  /** Puts policies of the tenant in force, which narrow those of the application. */
  putPolicies(
    policy: JsonObject | readonly JsonObject[],
    order: PolicyChangeOrder,
  ): Promise<PutPolicies> {
    return this.json('/policies', { method: 'POST', body: { policy, ...order } });
  }

  /** Puts the policies of an earlier version in force again, as a new version. */
  rollBack(number: number, order: PolicyChangeOrder): Promise<PutPolicies> {
    return this.json(`/policies/${number}/rollback`, { method: 'POST', body: order });
  }

  /** Compares two versions. */
  comparePolicies(from: number, to: number): Promise<readonly ChangedPolicy[]> {
    return this.json('/policies/diff', { query: { from, to } });
  }

  /**
   * Decides again about the calls of stored runs, 100 at most, by a version or by policies that
   * were never put. Nothing is called.
   */
  replay(
    by: number | JsonObject | readonly JsonObject[],
    runs: readonly string[],
  ): Promise<ReplayedPolicies> {
    return this.json('/policies/replay', {
      method: 'POST',
      body: typeof by === 'number' ? { version: by, runs } : { policy: by, runs },
    });
  }

  /** Lists to an operator the sources of tools, and what is not well with tools. */
  sources(): Promise<SourceReport> {
    return this.json('/sources');
  }

  /** Asks a source for its tools now, by its prefix or its name. */
  refreshSource(name: string): Promise<readonly ListedSource[]> {
    return this.json(route`/sources/${name}/refresh`, { method: 'POST' });
  }

  /**
   * Shows an operator what another person of the tenant sees, and why. It is in the audit, with
   * both people.
   */
  viewAs(actorId: string): Promise<ViewedActor> {
    return this.json(route`/view-as/${actorId}`);
  }

  /** Reads what was used. Everyone may see their own, with `actor`. */
  async usage({ groupBy = [], everywhere = false, ...selection }: UsageSelection = {}): Promise<
    readonly UsageSums[]
  > {
    const query = {
      ...selection,
      ...(everywhere && { everywhere: 'true' }),
      ...(groupBy.length > 0 && { groupBy: groupBy.join(',') }),
    };
    const { rows } = await this.json<{ readonly rows: readonly UsageSums[] }>('/usage', { query });
    return rows;
  }

  /**
   * Reads the signed head of the tenant's audit. Ask for it before the lines, since the chain
   * grows.
   */
  auditHead(): Promise<unknown> {
    return this.json('/audit/head');
  }

  /** Reads the audit of the tenant as JSON Lines: all of it, or the entries from a sequence on. */
  async auditLines(from?: number): Promise<ReadableStream<Uint8Array>> {
    const { body } = await this.send('/audit', { query: { from } });
    return body ?? new Blob().stream();
  }

  /**
   * Lists the actor's conversations, a page at a time; `after` is the id of the last one of the
   * previous page.
   */
  conversations(after?: string): Promise<readonly ConversationSummary[]> {
    return this.json('/conversations', { query: { after } });
  }

  /** Reads a conversation from a message on; 0 is the first. */
  conversation(conversationId: string, from = 0): Promise<ConversationPage> {
    return this.json(route`/conversations/${conversationId}`, { query: { from } });
  }

  async deleteConversation(conversationId: string): Promise<void> {
    await this.send(route`/conversations/${conversationId}`, { method: 'DELETE' });
  }

  private followTerms(
    runIdOf: () => string,
    { leaveWhenWaiting: times, signal }: Omit<ReadOptions, 'after'>,
  ): FollowTerms {
    const untilMoved =
      times &&
      ((after: number): Promise<void> =>
        lookUntilMoved(() => this.run(runIdOf()), after, times(signal)));
    return { ...this.options.reconnect, untilMoved, signal };
  }

  /**
   * Reads a run that ends with its reader. To leave it is told by a request of its own: the server
   * waits for a reader who has only lost its connection.
   */
  private async *readOwn(
    response: Response,
    signal: AbortSignal | undefined,
  ): AsyncGenerator<LoopEvent, void, undefined> {
    let left: string | undefined;
    try {
      for await (const event of readToEnd(response, this.options.reconnect?.idleMs, signal)) {
        left = event.type === 'run-end' ? undefined : event.runId;
        yield event;
      }
    } catch (error) {
      if (error instanceof ConnectionLostError) left = undefined;
      throw error;
    } finally {
      if (left !== undefined)
        await this.cancel(left, 'The reader has left.').catch(() => undefined);
    }
  }

  /** The entries of a list, of one page after the other. */
  private async *pagesOf<Entry>(path: string): AsyncGenerator<Entry, void, undefined> {
    for (let query: string | undefined = `?limit=${MOST_LISTED}`; query !== undefined;) {
      const response = await this.send(`${path}${query}`);
      yield* (await response.json()) as readonly Entry[];
      query = /^<(\?[^>]+)>; rel="next"$/.exec(response.headers.get('link') ?? '')?.[1];
    }
  }

  private openEvents(
    runId: string,
    after: number,
    signal: AbortSignal | undefined,
  ): Promise<Response> {
    return this.send(route`/runs/${runId}/events`, {
      headers: after > 0 ? { 'last-event-id': String(after) } : {},
      signal,
    });
  }

  private async json<Body>(path: string, parts?: RequestParts): Promise<Body> {
    const response = await this.send(path, parts);
    return (await response.json()) as Body;
  }

  private async send(
    path: string,
    { method = 'GET', body, headers, query, signal }: RequestParts = {},
  ): Promise<Response> {
    const { credentials = 'same-origin', fetch: send = fetch } = this.options;
    const type: Readonly<Record<string, string>> =
      body === undefined ? {} : { 'content-type': 'application/json' };
    const response = await send(this.address(path, query), {
      method,
      credentials,
      cache: 'no-store',
      headers: { ...(await this.options.headers?.()), ...headers, ...type },
      ...(body !== undefined && { body: JSON.stringify(body) }),
      ...(signal && { signal }),
    });
    if (!response.ok) throw await readHttpError(response);
    return response;
  }

  private address(path: string, query: RequestParts['query'] = {}): string {
    const search = new URLSearchParams();
    for (const [name, value] of Object.entries(query))
      if (value !== undefined) search.set(name, String(value));
    return `${this.options.url.replace(/\/+$/, '')}${path}${search.size > 0 ? `?${search.toString()}` : ''}`;
  }
}

/**
 * Builds a path whose values cannot leave their segment.
 *
 * @throws TypeError for a value that no segment can hold.
 */
function route(texts: TemplateStringsArray, ...values: readonly string[]): string {
  const segments = values.map((value) => {
    if (/^\.{0,2}$|\p{Cs}/u.test(value)) throw new TypeError(`"${value}" is no id.`);
    return encodeURIComponent(value);
  });
  return String.raw({ raw: texts }, ...segments);
}

function keyed(requestId: string | undefined): Readonly<Record<string, string>> {
  return requestId === undefined ? {} : { 'idempotency-key': requestId };
}
