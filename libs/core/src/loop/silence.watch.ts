import { Interruption, type LinkedSignal } from '../execution/interruption.js';

/** Interrupts a model that stays silent for too long. The time in which the reader of the events makes the run wait does not count. */
export class SilenceWatch {
  private timer: NodeJS.Timeout;
  private isListening = false;
  private since = 0;

  constructor(
    private readonly link: LinkedSignal,
    private readonly ms: number,
  ) {
    this.timer = setTimeout(() => this.check(), ms);
  }

  listen(): void {
    this.since = performance.now();
    this.isListening = true;
  }

  pause(): void {
    this.isListening = false;
  }

  stop(): void {
    clearTimeout(this.timer);
  }

  private check(): void {
    const silentFor = this.isListening ? performance.now() - this.since : 0;
    if (this.isListening && silentFor >= this.ms) this.link.abort(new Interruption('timeout', `The model was silent for ${this.ms} ms.`));
    else this.timer = setTimeout(() => this.check(), this.ms - silentFor);
  }
}
