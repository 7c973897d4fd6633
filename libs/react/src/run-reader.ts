import type { Run, ToolLoopClient } from '@toolloop/client';
import type { LoopEvent } from '@toolloop/protocol';
import { LookTimes, type Notices } from './look-times.js';
import { isAbort, Observed, toError } from './observed.js';
import { EMPTY_RUN, type RunView, withEvent } from './run-view.js';

/** The events of one run: those that there are, then those that come. */
export class RunReader extends Observed<RunState> {
  private readonly gathered: LoopEvent[] = [];
  private timer: ReturnType<typeof setTimeout> | undefined;
  private readonly looks: LookTimes;

  constructor(
    private readonly client: ToolLoopClient,
    readonly runId: string,
    notices?: Notices,
  ) {
    super({ events: [], view: EMPTY_RUN, reading: 'loading' });
    this.looks = new LookTimes(notices);
  }

  /** Reads until the run has ended, or the signal is aborted. */
  async follow(signal: AbortSignal): Promise<void> {
    try {
      this.show({ run: await this.client.run(this.runId) });
      const { lastSequence } = this.snapshot().view;
      const reading = { after: lastSequence, leaveWhenWaiting: this.looks.times, signal };
      for await (const event of this.client.events(this.runId, reading)) this.take(event);
      this.showGathered();
      this.show({ reading: 'complete', run: await this.client.run(this.runId) });
    } catch (thrown) {
      this.showGathered();
      if (!isAbort(thrown) && !signal.aborted)
        this.show({ error: toError(thrown), reading: 'complete' });
    }
  }

  private take(event: LoopEvent): void {
    this.gathered.push(event);
    this.timer ??= setTimeout(() => this.showGathered(), GATHER_MS);
  }

  private showGathered(): void {
    clearTimeout(this.timer);
    this.timer = undefined;
    const gathered = this.gathered.splice(0);
    if (gathered.length === 0) return;
    const { events, view } = this.snapshot();
    this.show({
      events: [...events, ...gathered],
      view: gathered.reduce(withEvent, view),
      reading: 'live',
    });
  }
}

/** A run as a page shows it. */
export interface RunState {
  /** Absent until the server has said what it is. */
  readonly run?: Run;
  readonly events: readonly LoopEvent[];
  readonly view: RunView;
  /** `live`: events are read as they come. */
  readonly reading: 'loading' | 'live' | 'complete';
  readonly error?: Error;
}

/**
 * The milliseconds for which events are gathered before they are shown: a stored run has thousands,
 * which come at once.
 */
const GATHER_MS = 16;
