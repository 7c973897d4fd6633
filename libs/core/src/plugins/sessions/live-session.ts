import { InvalidRequestError, type JsonObject, type ToolSpec } from '@toolloop/protocol';
import { Observable, Subject } from 'rxjs';
import type { Toolset } from '../../catalog/toolset.js';
import {
  type CallResult,
  SESSION_CALL,
  type SessionCallOptions,
  type SessionTool,
  type ShownTool,
  type ToolsChange,
  type ToolSession,
} from '../../contracts/session.js';
import { Interruption } from '../../contracts/interruption.js';
import { asRun } from '../../call/store-calls.js';
import { Logger } from '../../findings/logger.js';
import { RunInputs } from '../../run/run-inputs.js';
import { LiveRun } from '../../run/live-run.js';
import type { RunParts } from '../../run/loop-run.js';
import { firstState, type LoopState } from '../../loop/loop-state.js';
import { isRefusal } from '../repetition/refusals.js';
import type { CallSession, RunPlan } from '../../run/run-plan.js';
import { withAuthorityOfNow } from '../../loop/refreshed-tools.js';
import { isUnpinned } from '../sources/vouched-tools.js';
import { CallRun } from './call-run.js';
import { callOf } from './called-tool.js';

/** A session in this process: what its calls share, and the calls under way. */
export class LiveSession implements ToolSession {
  readonly sessionId: string;
  isOpen = true;
  /** The time of its last use, in milliseconds of this process. */
  usedAt = performance.now();
  private readonly abortion = new AbortController();
  private readonly changed = new Subject<ToolsChange>();
  /** The number of calls under way. */
  private running = 0;
  /** The number of calls until now. */
  private made = 0;
  /** Tells who closes the session that no call is under way any more. */
  private idle: (() => void) | undefined;
  private readonly live: LiveRun;
  private readonly shared: CallSession;
  private state: LoopState;
  private changing: Promise<unknown> | undefined;
  private bound:
    { readonly of: Toolset; readonly tools: ReadonlyMap<string, SessionTool> } | undefined;
  private closing: Promise<void> | undefined;

  constructor(
    private readonly plan: RunPlan,
    toolset: Toolset,
    private readonly services: RunParts,
    /** Lets go of the place that the session takes. */
    private readonly forget: (session: LiveSession) => void,
  ) {
    this.sessionId = plan.execution.run.runId;
    this.state = firstState(toolset);
    const start = {
      instructions: undefined,
      history: [],
      inputs: new RunInputs(),
      subRuns: services.subRuns,
      plugins: services.plugins,
    };
    this.live = new LiveRun(plan, start, this.abortion.signal, () => undefined);
    this.shared = {
      live: this.live,
      change: (inject) =>
        this.change(async (state) => ({ ...state, toolset: await inject(state.toolset) })),
    };
  }

  get changes$(): Observable<ToolsChange> {
    return new Observable((subscriber) => {
      if (this.isOpen)
        subscriber.add(this.services.loop.sourceChanges$.subscribe(() => void this.follow()));
      return this.changed.subscribe(subscriber);
    });
  }

  get tools(): ReadonlyMap<string, SessionTool> {
    const { toolset } = this.state;
    if (this.bound?.of !== toolset) this.bound = { of: toolset, tools: this.boundTo(toolset) };
    return this.bound.tools;
  }

  /** Returns whether no call is under way. */
  get isIdle(): boolean {
    return this.running === 0;
  }

  async list(): Promise<readonly ToolSpec[]> {
    this.assertOpen();
    this.begin();
    try {
      return await asRun(this.abortion.signal, async () => {
        const { live, services } = this;
        const { specs } = await this.change(async (state) =>
          withAuthorityOfNow(await services.loop.followSources(state, live), live),
        );
        await this.plan.account?.refresh(this.state.toolset);
        return specs;
      });
    } finally {
      this.finish();
    }
  }

  describe(id: string): ShownTool | undefined {
    const { spec, presentation } = this.state.toolset.find(id) ?? {};
    return spec && { spec, ...(presentation && { presentation }) };
  }

  async call(
    tool: string,
    args?: JsonObject,
    options: SessionCallOptions = NO_OPTIONS,
  ): Promise<CallResult> {
    this.assertOpen();
    if (options !== NO_OPTIONS) SESSION_CALL.assert(options, 'session.call', 'request');
    const call = callOf(tool, args);
    this.begin();
    try {
      if (this.services.loop.isBehind(this.live))
        await this.change((state) => this.services.loop.followSources(state, this.live));
      const made = await this.runFor(options).make(call);
      if (!made.waiting && this.isCountedEnd(made)) await this.noteEnd(made);
      return made;
    } finally {
      this.finish();
    }
  }

  /**
   * Takes over what a source has changed while no call is made. One that does not reach the session
   * now reaches it with its next call.
   */
  private async follow(): Promise<void> {
    const { live, services } = this;
    const following = asRun(this.abortion.signal, () =>
      this.change((state) => services.loop.followSources(state, live)),
    );
    await following.catch((error: unknown) =>
      logger.warn(`The session ${this.sessionId} could not follow a source.`, error),
    );
  }

  async close(): Promise<void> {
    this.closing ??= this.closed();
    return this.closing;
  }

  /** The same, for an application that shuts down. */
  cancel(): void {
    void this.close();
  }

  private async noteEnd({ record, injectedTools }: CallResult): Promise<void> {
    if (injectedTools.length > 0)
      this.state = { ...this.state, records: [...this.state.records, record].slice(-MOST_RECORDS) };
    const refusals = (await this.plan.account?.ended(isRefusal(record))) ?? 0;
    if (refusals > 0 && refusals >= this.plan.execution.limits.refusalsInARow && this.isOpen)
      this.end();
  }

  /** Returns whether the end of a call is to be counted, or changed the tools. */
  private isCountedEnd({ record, injectedTools }: CallResult): boolean {
    return injectedTools.length > 0 || this.plan.account?.isCountedEnd(isRefusal(record)) === true;
  }

  private begin(): void {
    this.running += 1;
  }

  private finish(): void {
    this.running -= 1;
    this.usedAt = performance.now();
    if (this.running === 0) this.idle?.();
  }

  /**
   * An id of the session and a number: a random one for each call would cost as much as its
   * validation.
   */
  private newRunId(): string {
    this.made += 1;
    return `${this.sessionId}_${this.made}`;
  }

  private runFor(options: SessionCallOptions): CallRun {
    return new CallRun(
      this.planFor(options, this.newRunId()),
      this.services,
      this.abortion.signal,
      options.onProgress,
    );
  }

  private planFor({ signal, approvals, requestId }: SessionCallOptions, runId: string): RunPlan {
    const { execution, options } = this.plan;
    return {
      ...this.plan,
      session: this.shared,
      toolset: this.state.toolset,
      execution: { ...execution, run: { ...execution.run, runId }, requestId: requestId ?? runId },
      options: { ...options, ...(signal && { signal }), ...(approvals && { approvals }) },
    };
  }

  /** Changes the tools, one change after the other, and tells those who watch them. */
  private async change(next: (state: LoopState) => Promise<LoopState>): Promise<Toolset> {
    const { changing } = this;
    const apply = async (): Promise<Toolset> => {
      const { listedAt } = this.live;
      return this.apply(await this.known((await next(this.state)).toolset, listedAt));
    };
    const mine = changing ? changing.then(apply, apply) : apply();
    this.changing = mine;
    try {
      return await mine;
    } finally {
      if (this.changing === mine) this.changing = undefined;
    }
  }

  /**
   * Tells the account of tools before a client is shown them. Where that fails, those that no one
   * has pinned stay away; a source's come with the next change.
   */
  private async known(toolset: Toolset, listedAt: number): Promise<Toolset> {
    const { plan, state, live } = this;
    try {
      if (toolset !== state.toolset) await plan.account?.offer(toolset);
      return toolset;
    } catch (error) {
      logger.warn(
        `The account of the session ${this.sessionId} could not be told of new tools, so they are not shown.`,
        error,
      );
      live.listedAt = listedAt;
      return withoutGone(
        toolset.filter(
          (tool) => !isUnpinned(tool) || state.toolset.find(tool.spec.id)?.spec === tool.spec,
        ),
      );
    }
  }

  private apply(next: Toolset): Toolset {
    const { specs: before } = this.state.toolset;
    if (next === this.state.toolset) return next;
    const toolset =
      next.injectedCount > MOST_INJECTED + next.specs.length ? withoutGone(next) : next;
    this.state = { ...this.state, toolset };
    if (toolset.specs !== before && this.changed.observed) this.tell(before, toolset.specs);
    return toolset;
  }

  private tell(before: readonly ToolSpec[], now: readonly ToolSpec[]): void {
    const [earlier, later] = [new Set(before), new Set(now)];
    const added = now.filter((spec) => !earlier.has(spec));
    const ids = new Set(now.map(({ id }) => id));
    const removed = before
      .filter((spec) => !later.has(spec) && !ids.has(spec.id))
      .map(({ id }) => id);
    if (added.length + removed.length > 0) this.changed.next({ added, removed });
  }

  private boundTo({ tools }: Toolset): ReadonlyMap<string, SessionTool> {
    const bind =
      (id: string): SessionTool =>
      (args, options) =>
        this.call(id, args, options);
    const byId = new Map(tools.map(({ spec }) => [spec.id, bind(spec.id)]));
    const shared = new Set(
      tools
        .map(({ spec }) => spec.declaredId)
        .filter((id, index, all) => all.indexOf(id) !== index),
    );
    for (const { spec } of tools)
      if (!shared.has(spec.declaredId) && !byId.has(spec.declaredId))
        byId.set(spec.declaredId, bind(spec.id));
    return byId;
  }

  /** Takes no more calls. Those under way end by themselves. */
  private end(): void {
    this.isOpen = false;
    this.changed.complete();
    this.forget(this);
  }

  private async closed(): Promise<void> {
    if (this.isOpen) this.end();
    this.abortion.abort(new Interruption('aborted', 'The session was closed.'));
    if (this.running > 0) await new Promise<void>((resolve) => (this.idle = resolve));
  }

  private assertOpen(): void {
    if (!this.isOpen)
      throw new InvalidRequestError(
        'unknown_session',
        'The session is closed. Open another: loop.session({ actor, tenant }).',
      );
  }
}

/**
 * The tools that results brought and that are gone, before they are forgotten: a session may have
 * any number of them.
 */
const MOST_INJECTED = 200;
/**
 * The number of records that strategies may be reminded of when roles change: those of calls that
 * changed the tools.
 */
const MOST_RECORDS = 100;

/** The same tools, without what is known of injected ones that are gone. */
function withoutGone(toolset: Toolset): Toolset {
  return toolset.withInjected(
    toolset.injected.filter((spec) => toolset.find(spec.id)?.spec === spec),
  );
}

const logger = new Logger('ToolSession');
const NO_OPTIONS: SessionCallOptions = Object.freeze({});
