import { Injectable } from '@nestjs/common';
import { ToolExplorer } from '../discovery/tool.explorer.js';
import { ConversationStore } from '../protocol/conversation-store.js';
import { LoopEventSink } from '../protocol/loop-event.js';
import { SuspendedRuns } from './suspended.runs.js';
import { ToolLoop } from './tool.loop.js';

/** What every run works with. */
@Injectable()
export class RunServices {
  private found: readonly LoopEventSink[] | undefined;

  constructor(
    readonly loop: ToolLoop,
    readonly conversations: ConversationStore,
    readonly suspended: SuspendedRuns,
    private readonly explorer: ToolExplorer,
  ) {}

  /** Of the whole application; known once it has started. */
  get sinks(): readonly LoopEventSink[] {
    this.found ??= this.explorer.instancesOf(LoopEventSink);
    return this.found;
  }
}
