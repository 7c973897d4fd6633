import { InvalidRequestError } from '../protocol/errors.js';
import type { LoopRequest } from '../protocol/loop-request.js';
import type { Message } from '../protocol/message.js';
import { asSaid } from './labelled-messages.js';

/** Of a run that goes on elsewhere. */
export interface SavedInputs {
  /** How many are in the transcript. */
  readonly taken: number;
  /** Those given later, in their order. */
  readonly waiting: readonly string[];
}

type UserText = Extract<Message, { role: 'user' }> & { readonly content: string };

/** Keeps an input, by its number in the run: from 1. */
export type InputKeeper = (number: number, content: string) => void;

/** What the user adds while a run goes on. It is closed in the very moment in which the run is decided, so that nothing said is lost. */
export class RunInputs {
  private waiting: UserText[];
  private closed = false;
  private takenBefore: number;
  private kept: number;
  private keep: InputKeeper | undefined;

  constructor(
    { taken, waiting }: SavedInputs = { taken: 0, waiting: [] },
    private readonly options: Pick<LoopRequest, 'labels'> = {},
  ) {
    this.takenBefore = taken;
    this.waiting = waiting.map(asMessage);
    this.kept = this.given;
  }

  get isClosed(): boolean {
    return this.closed;
  }

  get isEmpty(): boolean {
    return this.waiting.length === 0;
  }

  /** How many are in the transcript. */
  get taken(): number {
    return this.takenBefore;
  }

  /** From here on each is kept as soon as it is given, and at once those that were given before. */
  keepBy(keep: InputKeeper): void {
    this.keep = keep;
    this.keepNew();
  }

  /** Throws `InvalidRequestError` for what is no text, or says nothing. */
  add(content: string): void {
    if (typeof content !== 'string' || content.trim() === '')
      throw new InvalidRequestError('invalid_request', 'The message is empty, or not a string.');
    this.waiting.push(asMessage(content));
    this.keepNew();
  }

  /** Those that no model has read; from here on they are in the transcript. */
  take(): readonly Message[] {
    const { waiting } = this;
    this.takenBefore = this.given;
    this.waiting = [];
    return asSaid(waiting, this.options);
  }

  /** Accepts no more. */
  close(): void {
    this.closed = true;
  }

  /** What a run that waits is resumed with. */
  save(): SavedInputs {
    return { taken: this.takenBefore, waiting: this.waiting.map(({ content }) => content) };
  }

  private get given(): number {
    return this.takenBefore + this.waiting.length;
  }

  private keepNew(): void {
    if (!this.keep) return;
    const added = this.waiting.slice(this.kept - this.takenBefore);
    for (const { content } of added) this.keep((this.kept += 1), content);
  }
}

function asMessage(content: string): UserText {
  return { role: 'user', content };
}
