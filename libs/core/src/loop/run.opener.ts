import { Injectable } from '@nestjs/common';
import { ToolExplorer } from '../discovery/tool.explorer.js';
import { ConversationStore } from '../protocol/conversation-store.js';
import { LoopEventSink } from '../protocol/loop-event.js';
import type { LoopProfile } from '../protocol/loop-profile.js';
import type { LoopRequest, ResumeRequest } from '../protocol/loop-request.js';
import type { RunHandle } from '../protocol/run-handle.js';
import type { ToolSpec } from '../protocol/tool.js';
import { LoopRun, type RunServices } from './loop.run.js';
import { RunPreparation, type ListingRequest } from './run.preparation.js';
import { SuspendedRuns } from './suspended.runs.js';
import { ToolLoop } from './tool.loop.js';

/** Opens the runs of every loop, named or not. */
@Injectable()
export class RunOpener {
  private sinks: readonly LoopEventSink[] | undefined;

  constructor(
    private readonly preparation: RunPreparation,
    private readonly loop: ToolLoop,
    private readonly conversations: ConversationStore,
    private readonly explorer: ToolExplorer,
    private readonly suspended: SuspendedRuns,
  ) {}

  open<Output, Actor>(request: LoopRequest<Output, Actor>, profile: LoopProfile): RunHandle<Output> {
    return new LoopRun<Output>(this.preparation.prepare(request, profile), this.services());
  }

  /** Throws `InvalidRequestError` (`unknown_run`) for a run that does not wait, or not for this actor. */
  async resume<Output, Actor>(runId: string, request: ResumeRequest<Output, Actor>, profile: LoopProfile): Promise<RunHandle<Output>> {
    const resumed = await this.suspended.find(runId, request);
    return new LoopRun<Output>(this.preparation.prepare(request, profile, resumed), this.services(), resumed);
  }

  private services(): RunServices {
    this.sinks ??= this.explorer.instancesOf(LoopEventSink);
    return { loop: this.loop, conversations: this.conversations, sinks: this.sinks, suspended: this.suspended };
  }

  /** The tools such a run would start with. */
  async list<Actor>(request: ListingRequest<Actor>, profile: LoopProfile): Promise<readonly ToolSpec[]> {
    const { specs } = await this.preparation.listed(request, profile);
    return specs;
  }
}
