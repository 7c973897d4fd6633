import { Injectable } from '@nestjs/common';
import type { Observable } from 'rxjs';
import { ToolExplorer } from '../discovery/tool.explorer.js';
import { ConversationStore } from '../protocol/conversation-store.js';
import { LoopEventSink, type LoopEvent } from '../protocol/loop-event.js';
import type { LoopRequest } from '../protocol/loop-request.js';
import type { LoopResult } from '../protocol/loop-result.js';
import type { RegisteredActor } from '../protocol/register.js';
import type { RunHandle } from '../protocol/run-handle.js';
import type { ToolSpec } from '../protocol/tool.js';
import { LoopRun } from './loop.run.js';
import { LoopSettings } from './loop.settings.js';
import { RunPreparation } from './run.preparation.js';
import { ToolLoop } from './tool.loop.js';

/**
 * Runs the loop: hand it a prompt, and whom it acts for. A request that cannot be run is refused at once, by an `InvalidRequestError` or a
 * `ConfigurationError`.
 */
@Injectable()
export class ToolLoopService<Actor = RegisteredActor> {
  private sinks: readonly LoopEventSink[] | undefined;

  constructor(
    private readonly preparation: RunPreparation,
    private readonly settings: LoopSettings,
    private readonly loop: ToolLoop,
    private readonly conversations: ConversationStore,
    private readonly explorer: ToolExplorer,
  ) {}

  /** A run that starts when it is first read. */
  open<Output = unknown>(request: LoopRequest<Output, Actor>): RunHandle<Output> {
    this.sinks ??= this.explorer.instancesOf(LoopEventSink);
    const plan = this.preparation.prepare(request);
    return new LoopRun<Output>(plan, { loop: this.loop, conversations: this.conversations, sinks: this.sinks });
  }

  /** Runs to the end. Rejects with a `RunError`, which carries the partial result, for `error` and `aborted`. */
  async run<Output = unknown>(request: LoopRequest<Output, Actor>): Promise<LoopResult<Output>> {
    return this.open(request).result;
  }

  /** The events of a run, which starts with its one subscription. Unsubscribing aborts it. */
  stream(request: LoopRequest<unknown, Actor>): Observable<LoopEvent> {
    return this.open(request).events$;
  }

  /** The tools a run of this actor would start with. */
  list(request: Pick<LoopRequest<unknown, Actor>, 'actor' | 'tenant' | 'context' | 'policy' | 'tools' | 'exclude'>): readonly ToolSpec[] {
    const { policy, context = {}, actor, tenant } = request;
    const run = { runId: 'listing', actor, tenant, context, state: new Map<string, unknown>() };
    return this.preparation.toolsetFor(request, run, this.settings.policiesFor(policy)).specs;
  }
}
