import { Injectable } from '@nestjs/common';
import { ToolExplorer } from '../discovery/tool.explorer.js';
import type { ConversationStore } from '../protocol/conversation-store.js';
import { LoopEventSink } from '../protocol/loop-event.js';
import { OpenRuns } from './open.runs.js';
import { SubRunOpener } from './sub.run.opener.js';
import { SuspendedRuns } from './suspended.runs.js';
import type { ToolLoop } from './tool.loop.js';

/** What every run works with. */
@Injectable()
export class RunServices {
  private found: readonly LoopEventSink[] | undefined;

  constructor(
    readonly suspended: SuspendedRuns,
    readonly subRuns: SubRunOpener,
    readonly open: OpenRuns,
    private readonly explorer: ToolExplorer,
  ) {}

  get loop(): ToolLoop {
    return this.subRuns.services.loop;
  }

  get conversations(): ConversationStore {
    return this.subRuns.services.conversations;
  }

  /** Of the whole application; known once it has started. */
  get sinks(): readonly LoopEventSink[] {
    this.found ??= this.explorer.instancesOf(LoopEventSink);
    return this.found;
  }
}

/** What one run uses of it. A sub-run is told and kept by the run around it. */
export type RunParts = Pick<RunServices, 'loop' | 'conversations' | 'sinks' | 'subRuns'> & {
  readonly suspended: Pick<SuspendedRuns, 'keep' | 'claim' | 'remember' | 'askNobody'>;
  readonly open: Pick<OpenRuns, 'add'>;
};
