import { Injectable } from '@nestjs/common';
import { ToolExplorer } from '../discovery/tool.explorer.js';
import { ConversationStore } from '../protocol/conversation-store.js';
import { LoopEventSink } from '../protocol/loop-event.js';
import type { LoopProfile } from '../protocol/loop-profile.js';
import type { LoopRequest } from '../protocol/loop-request.js';
import type { RunHandle } from '../protocol/run-handle.js';
import type { ToolSpec } from '../protocol/tool.js';
import { LoopRun } from './loop.run.js';
import { RunPreparation } from './run.preparation.js';
import { ToolLoop } from './tool.loop.js';

/** What decides on the tools of a run, and for whom. */
export type ListingRequest<Actor> = Pick<LoopRequest<unknown, Actor>, 'actor' | 'tenant' | 'context' | 'policy' | 'tools' | 'exclude'>;

/** Opens the runs of every loop, named or not. */
@Injectable()
export class RunOpener {
  private sinks: readonly LoopEventSink[] | undefined;

  constructor(
    private readonly preparation: RunPreparation,
    private readonly loop: ToolLoop,
    private readonly conversations: ConversationStore,
    private readonly explorer: ToolExplorer,
  ) {}

  open<Output, Actor>(request: LoopRequest<Output, Actor>, profile: LoopProfile): RunHandle<Output> {
    this.sinks ??= this.explorer.instancesOf(LoopEventSink);
    const plan = this.preparation.prepare(request, profile);
    return new LoopRun<Output>(plan, { loop: this.loop, conversations: this.conversations, sinks: this.sinks });
  }

  /** The tools such a run would start with. */
  list<Actor>(request: ListingRequest<Actor>, profile: LoopProfile): readonly ToolSpec[] {
    const { context = {}, actor, tenant } = request;
    const run = { runId: 'listing', actor, tenant, context, state: new Map<string, unknown>() };
    return this.preparation.toolsetFor([request, profile], run).specs;
  }
}
