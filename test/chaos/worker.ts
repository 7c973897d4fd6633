import { spawn, type ChildProcess } from 'node:child_process';
import type { WorkerAsk, WorkerWord } from './worker.process.js';
import type { WorkerOptions } from './worker.application.js';
import { programArguments } from '../program.js';

const ARGUMENTS = programArguments('test/chaos/worker.process.ts');
const LONGEST_ANSWER_MS = 20_000;

/** A worker did not answer: most often because it was killed. */
export class NoAnswerError extends Error {}

interface Asked {
  readonly resolve: (value: string | number) => void;
  readonly reject: (error: Error) => void;
}

/** A worker process, from the side of whoever kills it. */
export class Worker {
  /** Resolves once it is at work; rejects where it is gone before. */
  readonly ready: Promise<void>;
  readonly gone: Promise<void>;
  /** What the runs it had opened came to there. */
  readonly outcomes = new Map<string, string>();
  private readonly child: ChildProcess;
  private readonly asked = new Map<number, Asked>();
  /**
   * Asked before it was frozen: of these it may say that they took too long, and nobody can hold
   * that against it.
   */
  private readonly sleptOver = new Set<number>();
  private count = 0;
  private said = '';

  constructor(options: WorkerOptions) {
    this.child = spawn(process.execPath, [...ARGUMENTS, JSON.stringify(options)], {
      stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
    });
    for (const stream of [this.child.stdout, this.child.stderr])
      stream?.on(
        'data',
        (chunk: Buffer) => (this.said = (this.said + chunk.toString()).slice(-10_000)),
      );
    this.gone = new Promise((resolve) => this.child.once('close', () => resolve()));
    this.ready = new Promise((resolve, reject) => {
      this.child.on('message', (word: WorkerWord) =>
        word.type === 'ready' ? resolve() : this.heard(word),
      );
      void this.gone.then(() => reject(new NoAnswerError(`The worker is gone.\n${this.said}`)));
    });
    this.ready.catch(() => undefined); // not everybody waits for it
    void this.gone.then(() =>
      this.asked.forEach(({ reject }) => reject(new NoAnswerError('The worker is gone.'))),
    );
  }

  /** The last of what it printed. */
  get output(): string {
    return this.said;
  }

  get isGone(): boolean {
    return this.child.exitCode !== null || this.child.signalCode !== null;
  }

  ask(ask: WorkerAsk): Promise<string | number> {
    const id = (this.count += 1);
    return new Promise<string | number>((resolve, reject) => {
      const timer = setTimeout(
        () => reject(new NoAnswerError(`No answer to ${ask.type}.`)),
        LONGEST_ANSWER_MS,
      );
      this.asked.set(id, { resolve, reject });
      this.child.send({ id, ask }, (error) => error && reject(new NoAnswerError(error.message)));
      void this.gone.finally(() => clearTimeout(timer));
    }).finally(() => this.asked.delete(id));
  }

  async kill(): Promise<void> {
    this.child.kill('SIGKILL');
    await this.gone;
  }

  freeze(): void {
    for (const id of this.asked.keys()) this.sleptOver.add(id);
    this.child.kill('SIGSTOP');
  }

  revive(): void {
    this.child.kill('SIGCONT');
  }

  private heard(word: WorkerWord): void {
    if (word.type === 'outcome') this.outcomes.set(word.runId, word.outcome);
    if (word.type !== 'answer') return;
    const asked = this.asked.get(word.id);
    if (word.failure === undefined) asked?.resolve(word.value ?? '');
    else if (this.sleptOver.has(word.id))
      asked?.reject(new NoAnswerError(`It slept over this: ${word.failure}`));
    else asked?.reject(new Error(word.failure));
  }
}
