import { type BeforeApplicationShutdown, Injectable } from '@nestjs/common';
import { InvalidRequestError } from '@toolloop/protocol';
import {
  CALL,
  type CallRequest,
  type CallResult,
  DEFAULT_SESSIONS,
  SESSION,
  type SessionRequest,
  SESSIONS,
  type ToolSession,
} from '../../contracts/session.js';
import type { NamedProfile } from '../../contracts/durable-runs.js';
import type { RunContext } from '../../contracts/tool-call.js';
import { strictlyListed } from '../../call/resolve-tool.js';
import { LoopSettings } from '../../run/loop-settings.js';
import { RunOpener } from '../../run/run-opener.js';
import { RunPreparation } from '../../run/run-preparation.js';
import type { RunPlan } from '../../run/run-plan.js';
import { ActorIdentity } from '../../policy/actor-identity.js';
import { CallRun } from './call-run.js';
import { callOf } from './called-tool.js';
import { LiveSession } from './live-session.js';
import { Explanations } from '../operators/explanations.js';

/**
 * Makes calls without a model, by themselves or in sessions, of which it keeps those of the whole
 * process.
 */
@Injectable()
export class Sessions implements BeforeApplicationShutdown {
  private readonly open = new Map<string, OpenSession>();
  /** Places that are taken by sessions which are about to be opened. */
  private readonly opening = new Set<Principal>();
  private timer: NodeJS.Timeout | undefined;

  constructor(
    private readonly runs: RunOpener,
    private readonly preparation: RunPreparation,
    private readonly settings: LoopSettings,
    private readonly identity: ActorIdentity,
    readonly explanations: Explanations,
  ) {}

  /** Makes one call; see `ToolLoopService.call`. */
  async call<Actor>(
    request: CallRequest<Actor>,
    { name, profile }: NamedProfile,
  ): Promise<CallResult> {
    this.runs.assertOpen();
    CALL.assert(request, 'request', 'request');
    const call = callOf(request.tool, request.args);
    const plan = this.preparation.prepareCall(request, profile);
    return new CallRun({ ...plan, loop: name }, this.runs.services).make(call);
  }

  /** Opens a session; see `ToolLoopService.session`. */
  async session<Actor>(
    request: SessionRequest<Actor>,
    { name, profile }: NamedProfile,
  ): Promise<ToolSession> {
    this.runs.assertOpen();
    SESSION.assert(request, 'request', 'request');
    const { execution, ...prepared } = this.preparation.prepareSession(request, profile);
    const run = { ...execution.run, sessionId: execution.run.runId };
    const plan = { ...prepared, loop: name, execution: { ...execution, run } };
    const principal = { tenant: plan.execution.run.tenant, actorId: plan.execution.actorId };
    this.assertRoom(principal);
    this.opening.add(principal);
    try {
      await this.runs.assertTenant(principal.tenant);
      return this.opened(plan, principal, await this.begun(plan));
    } finally {
      this.opening.delete(principal);
    }
  }

  /** Finds an open session of an actor; see `ToolLoopService.findSession`. */
  find<Actor>(
    sessionId: string,
    { actor, tenant }: Pick<RunContext<Actor>, 'actor' | 'tenant'>,
  ): ToolSession {
    const found = this.open.get(sessionId);
    const actorId = this.identity.idOf(actor);
    if (found && found.tenant === tenant && actorId !== undefined && found.actorId === actorId)
      return found.session;
    throw new InvalidRequestError('unknown_session', 'You have no open session of that id.');
  }

  /** Closes all sessions, once their calls were told to end. */
  async beforeApplicationShutdown(): Promise<void> {
    await Promise.all([...this.open.values()].map(({ session }) => session.close()));
  }

  /**
   * The tools that a session begins with. What its client is shown, and what others have read, its
   * account knows before it is handed out.
   */
  private async begun({
    account,
    toolset,
    strictListing,
    execution,
  }: RunPlan): Promise<RunPlan['toolset']> {
    const listed = strictListing
      ? await strictlyListed(toolset, { ...execution, signal: undefined })
      : toolset;
    await account?.refresh(listed);
    return listed;
  }

  private opened(plan: RunPlan, principal: Principal, toolset: RunPlan['toolset']): LiveSession {
    this.runs.assertOpen();
    const session = new LiveSession(plan, toolset, this.runs.services, () => this.forget(session));
    this.open.set(session.sessionId, { ...principal, session });
    this.timer ??= this.awaitIdle();
    return session;
  }

  /** @throws {InvalidRequestError} `too_many_sessions` */
  private assertRoom({ tenant, actorId }: Principal): void {
    const { perTenant, perActor } = this.limits;
    const ofTenant = [...this.open.values(), ...this.opening].filter(
      (other) => other.tenant === tenant,
    );
    const ofActor =
      actorId === undefined ? 0 : ofTenant.filter((other) => other.actorId === actorId).length;
    if (ofActor >= perActor)
      throw new InvalidRequestError(
        'too_many_sessions',
        `The actor has ${ofActor} open sessions, and may have ${perActor}. Close one of them, or set ToolLoopModule.forRoot({ sessions: { perActor } }).`,
      );
    if (ofTenant.length >= perTenant)
      throw new InvalidRequestError(
        'too_many_sessions',
        `The tenant has ${ofTenant.length} open sessions, and may have ${perTenant}. Close some of them, or set ToolLoopModule.forRoot({ sessions: { perTenant } }).`,
      );
  }

  private forget(session: LiveSession): void {
    this.open.delete(session.sessionId);
    if (this.open.size > 0) return;
    clearTimeout(this.timer);
    this.timer = undefined;
  }

  /**
   * One timer for all sessions, which sleeps until the first of them may have been idle for long
   * enough.
   */
  private awaitIdle(): NodeJS.Timeout {
    const { idleMs } = this.limits;
    const first = Math.min(...[...this.open.values()].map(({ session }) => session.usedAt));
    const ms = Math.max(1, Math.ceil(first + idleMs - performance.now()));
    return setTimeout(() => this.closeIdle(), ms).unref();
  }

  private closeIdle(): void {
    const { idleMs } = this.limits;
    const now = performance.now();
    for (const { session } of this.open.values()) {
      if (!session.isIdle) session.usedAt = now;
      else if (now - session.usedAt >= idleMs) void session.close();
    }
    this.timer = this.open.size > 0 ? this.awaitIdle() : undefined;
  }

  private get limits(): typeof DEFAULT_SESSIONS {
    return SESSIONS.merge(DEFAULT_SESSIONS, this.settings.options.sessions ?? {});
  }
}

/** The tenant and the actor of a session. */
interface Principal {
  readonly tenant: string;
  readonly actorId: string | undefined;
}

interface OpenSession extends Principal {
  readonly session: LiveSession;
}
