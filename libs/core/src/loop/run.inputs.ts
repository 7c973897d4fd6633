import type { Message } from '../protocol/message.js';

/** What the user adds while a run goes on. It is closed in the very moment in which the run is decided, so that nothing said is lost. */
export class RunInputs {
  private waiting: Message[] = [];
  private closed = false;

  get isClosed(): boolean {
    return this.closed;
  }

  get isEmpty(): boolean {
    return this.waiting.length === 0;
  }

  add(content: string): void {
    this.waiting.push({ role: 'user', content });
  }

  take(): readonly Message[] {
    const { waiting } = this;
    this.waiting = [];
    return waiting;
  }

  /** Takes no more, and answers with what no model has read. */
  close(): readonly Message[] {
    this.closed = true;
    return this.take();
  }
}
