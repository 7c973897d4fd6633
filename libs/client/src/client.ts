import type {
  Amendment,
  AnswerOf,
  AnsweredKey,
  AnsweredRequest,
  Approval,
  ApprovalGroup,
  Ask,
  Asks,
  ConversationPage,
  ConversationSummary,
  JsonObject,
  ListedTool,
  LoopEvent,
  MadeCall,
  PendingReply,
  RouteKey,
  Run,
  Undoing,
  UsageSums,
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

/** A selection of runs. */
export type RunSelection = Asks<'GET /runs'>;

/** A selection of what waits. */
export type PendingSelection = Asks<'GET /pending'>;

/** The part of a decision about a call that is about more than the call. */
export type DecisionReach = Pick<Asks<'POST /approvals/:approvalId'>, 'also' | 'always'>;

/** The target of a kill switch; without a tool and a source it is everything of the tenant. */
export type StopOrder = Omit<Asks<'POST /policies/stops'>, 'reason'>;

/** A selection of what was used. */
export type UsageSelection = Asks<'GET /usage'>;

/** A dimension of a report of usage. */
export type UsageGroup = NonNullable<UsageSelection['groupBy']>[number];

/** The most entries that a server puts on a page. */
const MOST_LISTED = 1_000;

/** The headers of a request, and what breaks it off. */
export interface RequestTerms {
  readonly headers?: Readonly<Record<string, string>>;
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
      this.send('POST /chat', { ...ask, durable }, { headers, signal });
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

  /**
   * Asks any route that answers with a value, with the segments of its path and the members of its
   * query and its body in one object. The routes of operators have no method but this one.
   *
   * @example
   * await client.request('POST /policies/stops', { tool: 'mail__send', reason: 'Ticket 4711.' });
   */
  request<Key extends AnsweredKey>(
    key: Key,
    asked: Asks<Key>,
    terms?: RequestTerms,
  ): Promise<AnswerOf<Key>> {
    return this.send(key, asked, terms).then(readAnswer<Key>);
  }

  /** Starts a durable run without reading it. The same `requestId` leads to the same run. */
  start(
    ask: Ask,
    { requestId, signal }: Pick<AskOptions, 'requestId' | 'signal'> = {},
  ): Promise<Run> {
    return this.request('POST /runs', ask, { headers: keyed(requestId), signal });
  }

  /** Lists the actor's runs, the newest first, a page at a time. */
  runs(selection: RunSelection = {}): Promise<readonly Run[]> {
    return this.request('GET /runs', selection);
  }

  run(runId: string): Promise<Run> {
    return this.request('GET /runs/:runId', { runId });
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
    const response = await this.send('POST /runs/:runId/resume', { runId }, { signal });
    yield* readToEnd(response, this.options.reconnect?.idleMs, signal);
  }

  /** Answers what a run asks: an approval, a question, or a call that the client was to make. */
  answer(runId: string, reply: PendingReply): Promise<AnsweredRequest> {
    return this.request('POST /runs/:runId/answer', { runId, ...reply });
  }

  cancel(runId: string, reason?: string): Promise<Run> {
    return this.request('POST /runs/:runId/cancel', { runId, reason });
  }

  /**
   * Starts a run that shares the steps of another up to one of them; 0 for none. What the shared
   * steps did is not done again.
   */
  fork(runId: string, step: number, requestId?: string): Promise<Run> {
    return this.request('POST /runs/:runId/fork', { runId, step }, { headers: keyed(requestId) });
  }

  /** Undoes what an ended run did, as far as that can be undone. Call it again to continue. */
  undo(runId: string, reason?: string): Promise<Undoing> {
    return this.request('POST /runs/:runId/undo', { runId, reason });
  }

  /**
   * Lists the calls that wait for a yes or no: those of the actor's own runs, and those that the
   * actor may decide. A page at a time, the oldest first.
   */
  approvals(selection: Asks<'GET /approvals'> = {}): Promise<readonly Approval[]> {
    return this.request('GET /approvals', selection);
  }

  /**
   * Lists the same calls by their kind and step, those of all pages: `decide` takes one decision of
   * a group, with the ids of the others in `also`.
   */
  async approvalGroups(): Promise<readonly ApprovalGroup[]> {
    const groups = new Map<string, ApprovalGroup>();
    for await (const { group, calls, ...rest } of this.pagesOfGroups())
      groups.set(group, { ...rest, group, calls: [...(groups.get(group)?.calls ?? []), ...calls] });
    return [...groups.values()];
  }

  approval(approvalId: string): Promise<Approval> {
    return this.request('GET /approvals/:approvalId', { approvalId });
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
    return this.request('POST /approvals/:approvalId', {
      approvalId,
      decision,
      reason,
      amend,
      ...reach,
    });
  }

  /** Lists the tools that the actor's model may call from the first step. */
  tools(): Promise<readonly ListedTool[]> {
    return this.request('GET /tools', {});
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
    return this.request('POST /tools/:tool', { tool, args }, { headers: keyed(requestId), signal });
  }

  /**
   * Lists everything that waits for the actor: approvals, questions, calls that a client is to
   * make, rehearsals; the oldest first, 100 by default and 1,000 at most.
   */
  pending(selection: PendingSelection = {}): Promise<readonly WaitingRequest[]> {
    return this.request('GET /pending', selection);
  }

  /** Reads what was used. Everyone may see their own, with `actor`. */
  async usage({ groupBy = [], ...selection }: UsageSelection = {}): Promise<readonly UsageSums[]> {
    const { rows } = await this.request('GET /usage', {
      ...selection,
      ...(groupBy.length > 0 && { groupBy }),
    });
    return rows;
  }

  /** Reads the audit of the tenant as JSON Lines: all of it, or the entries from a sequence on. */
  async auditLines(from?: number): Promise<ReadableStream<Uint8Array>> {
    const { body } = await this.send('GET /audit', { from });
    return body ?? new Blob().stream();
  }

  /**
   * Lists the actor's conversations, a page at a time; `after` is the id of the last one of the
   * previous page.
   */
  conversations(after?: string): Promise<readonly ConversationSummary[]> {
    return this.request('GET /conversations', { after });
  }

  /** Reads a conversation from a message on; 0 is the first. */
  conversation(conversationId: string, from = 0): Promise<ConversationPage> {
    return this.request('GET /conversations/:conversationId', {
      conversationId,
      from: String(from),
    });
  }

  async deleteConversation(conversationId: string): Promise<void> {
    await this.request('DELETE /conversations/:conversationId', { conversationId });
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

  /** The groups of one page after the other. */
  private async *pagesOfGroups(): AsyncGenerator<ApprovalGroup, void, undefined> {
    for (let after: string | undefined, isLast = false; !isLast;) {
      const response = await this.send('GET /approvals/groups', { limit: MOST_LISTED, after });
      yield* (await response.json()) as readonly ApprovalGroup[];
      const [, query] = /^<\?([^>]+)>; rel="next"$/.exec(response.headers.get('link') ?? '') ?? [];
      after = new URLSearchParams(query).get('after') ?? undefined;
      isLast = after === undefined;
    }
  }

  private openEvents(
    runId: string,
    after: number,
    signal: AbortSignal | undefined,
  ): Promise<Response> {
    const headers = { ...(after > 0 && { 'last-event-id': String(after) }) };
    return this.send('GET /runs/:runId/events', { runId }, { headers, signal });
  }

  /** @throws TypeError before anything is sent, for a value that no segment of a path can hold. */
  private send<Key extends RouteKey>(
    key: Key,
    asked: Asks<Key>,
    terms?: RequestTerms,
  ): Promise<Response> {
    return this.receive(toRequest(key, asked), terms);
  }

  private async receive(
    { method, path, body }: RoutedRequest,
    { headers, signal }: RequestTerms = {},
  ): Promise<Response> {
    const { credentials = 'same-origin', fetch: send = fetch } = this.options;
    const type: Readonly<Record<string, string>> =
      body === undefined ? {} : { 'content-type': 'application/json' };
    const response = await send(this.options.url.replace(/\/+$/, '') + path, {
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
}

async function readAnswer<Key extends AnsweredKey>(response: Response): Promise<AnswerOf<Key>> {
  const body: unknown = response.status === 204 ? undefined : await response.json();
  return body as AnswerOf<Key>;
}

interface RoutedRequest {
  readonly method: string;
  readonly path: string;
  readonly body?: unknown;
}

/**
 * The request of a route: the values that its path names become segments of it, those of a `POST`
 * its body and those of any other its query.
 *
 * @throws TypeError for a value that no segment can hold.
 */
function toRequest(key: RouteKey, asked: Readonly<Record<string, unknown>>): RoutedRequest {
  const [method = '', template = ''] = key.split(' ');
  const inPath = new Set<string>();
  const path = template.replaceAll(/:(\w+)/g, (_segment, name: string) => {
    inPath.add(name);
    return toSegment(String(asked[name]));
  });
  const others = Object.entries(asked).filter(([name]) => !inPath.has(name));
  if (method === 'POST')
    return { method, path, ...(others.length > 0 && { body: Object.fromEntries(others) }) };
  const given = others.filter(([, value]) => value !== undefined);
  const query = new URLSearchParams(given.map(([name, value]) => [name, String(value)]));
  return { method, path: query.size > 0 ? `${path}?${query.toString()}` : path };
}

function toSegment(value: string): string {
  if (/^\.{0,2}$|\p{Cs}/u.test(value)) throw new TypeError(`"${value}" is no id.`);
  return encodeURIComponent(value);
}

function keyed(requestId: string | undefined): Readonly<Record<string, string>> {
  return requestId === undefined ? {} : { 'idempotency-key': requestId };
}
