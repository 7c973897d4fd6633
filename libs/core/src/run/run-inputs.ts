import { InvalidRequestError, type Message } from '@toolloop/protocol';
import type { LeftInput } from '../contracts/conversation.js';
import type { LoopRequest } from '../contracts/loop-request.js';
import type { RunInputEntry } from '../contracts/run-log.js';
import { asSaid } from '../loop/loop-state.js';
import { NUMBER, TEXT, list, object, optional } from '../schema/saved-form.js';

/**
 * The messages that the user adds during a run. It is closed in the very moment in which the run is
 * decided, so that nothing said is lost.
 */
export class RunInputs {
  private waiting: GivenInput[];
  /** The words of other runs, by their ids, until they are kept. */
  private readonly left = new Map<string, Promise<unknown>>();
  private closed = false;
  private takenBefore: number;
  private kept: number;
  private keep: InputKeeper | undefined;

  constructor(
    { taken, waiting, from = [] }: SavedInputs = { taken: 0, waiting: [] },
    private readonly options: Pick<LoopRequest, 'labels'> = {},
  ) {
    this.takenBefore = taken;
    this.waiting = waiting.map((content) => ({ content }));
    for (const id of from) this.left.set(id, Promise.resolve());
    this.kept = this.given;
  }

  get isClosed(): boolean {
    return this.closed;
  }

  get isEmpty(): boolean {
    return this.waiting.length === 0;
  }

  /** The number of inputs in the transcript. */
  get taken(): number {
    return this.takenBefore;
  }

  /** From here on each is kept as soon as it is given, and at once those that were given before. */
  keepBy(keep: InputKeeper): void {
    this.keep = keep;
    this.keepInTime();
  }

  /** Throws `InvalidRequestError` for what is no text, or says nothing. */
  add(content: string): void {
    assertSaid(content);
    this.waiting.push({ content });
    this.keepInTime();
  }

  /**
   * Takes what another run has left, once however often, and resolves when it is kept; to false
   * where it takes no more, or is to keep it and cannot yet.
   */
  async takeLeft({ id, texts }: LeftInput, mustBeKept: boolean): Promise<boolean> {
    if (this.closed || (mustBeKept && !this.keep)) return false;
    try {
      if (!this.left.has(id)) {
        texts.forEach(assertSaid);
        this.waiting.push(...texts.map((content) => ({ content, from: id })));
        this.left.set(id, this.keepNew());
      }
      await this.left.get(id);
      return true;
    } catch {
      return false;
    }
  }

  /** Those that no model has read; from here on they are in the transcript. */
  take(): readonly Message[] {
    const { waiting } = this;
    this.takenBefore = this.given;
    this.waiting = [];
    return asSaid(
      waiting.map(({ content }) => ({ role: 'user', content })),
      this.options,
    );
  }

  /** Accepts no more. */
  close(): void {
    this.closed = true;
  }

  /** Returns the inputs with which a waiting run is resumed. */
  save(): SavedInputs {
    const from = [...this.left.keys()];
    return {
      taken: this.takenBefore,
      waiting: this.waiting.map(({ content }) => content),
      ...(from.length > 0 && { from }),
    };
  }

  private get given(): number {
    return this.takenBefore + this.waiting.length;
  }

  private async keepNew(): Promise<void> {
    const { keep } = this;
    if (!keep) return;
    const added = this.waiting.slice(this.kept - this.takenBefore);
    await Promise.all(
      added.map(({ content, from }) =>
        keep({ number: (this.kept += 1), content, ...(from !== undefined && { from }) }),
      ),
    );
  }

  /** Keeps them, unless the run is another process's by then: it is not ended for that here. */
  private keepInTime(): void {
    void this.keepNew().catch(() => undefined);
  }
}

export const SAVED_INPUTS = object<SavedInputs>({
  taken: NUMBER,
  waiting: list(TEXT),
  from: optional(list(TEXT)),
});

/** The inputs of a run that continues elsewhere. */
export interface SavedInputs {
  /** The number of inputs in the transcript. */
  readonly taken: number;
  /** Those given later, in their order. */
  readonly waiting: readonly string[];
  /** The ids of all that other runs of the conversation have said here. @default none */
  readonly from?: readonly string[];
}

/** A message of the user; `from` is the id under which another run has left it. */
type GivenInput = Pick<RunInputEntry, 'content' | 'from'>;

/** Keeps an input, by its number in the run: from 1. */
export type InputKeeper = (input: Omit<RunInputEntry, 'type' | 'key'>) => Promise<void>;

/** Throws `InvalidRequestError` for what is no text, or says nothing. */
function assertSaid(content: unknown): void {
  if (typeof content !== 'string' || content.trim() === '')
    throw new InvalidRequestError('invalid_request', 'The message is empty, or not a string.');
}
