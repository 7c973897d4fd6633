import { randomUUID } from 'node:crypto';
import { isObject, type ToolOrigin } from '@toolloop/protocol';
import { isObservable, type Subscription } from 'rxjs';
import type {
  SourceOptions,
  SourceStatus,
  SourceTool,
  ToolSource,
} from '../../contracts/source.js';
import { Interruption, linkSignal, untilAborted } from '../../contracts/interruption.js';
import { Logger } from '../../findings/logger.js';
import type { Admission, SourceAdmission } from './source-admission.js';

/**
 * One source over time: how it is asked, when it is asked again, and what became of its answers.
 */
export class LivingSource {
  readonly named: NamedSource;
  readonly admission: SourceAdmission;
  /**
   * The time at which it is to be asked again, in milliseconds since the epoch; absent where it is
   * not.
   */
  dueAt: number | undefined;
  /** True once it has answered. */
  hasAnswered = false;
  private state: SourceStatus['state'] = 'starting';
  private since = new Date().toISOString();
  private lastError: string | undefined;
  private last: Pick<Admission, 'quarantined' | 'leftOut'> = { quarantined: [], leftOut: 0 };
  private listening: Subscription | undefined;
  /**
   * The times in a row that it failed to answer, that its changes failed, and that it changed as
   * soon as it was asked.
   */
  private readonly streaks = { failed: 0, deaf: 0, changed: 0 };
  private askedAt = Number.NEGATIVE_INFINITY;
  private isAsked = false;
  /** True once its changes have failed, until they are listened to again. */
  private isDeaf = false;

  constructor(
    private readonly parts: SourceParts,
    /** Called when `dueAt` has changed. */
    private readonly onDue: () => void,
  ) {
    this.named = parts.named;
    this.admission = parts.admission;
  }

  /** The name by which it is listed and refreshed. */
  get name(): string {
    const { prefix, origin } = this.named;
    return prefix ?? origin.source;
  }

  /** Set for a source whose mistakes are those of the application. */
  get isOwn(): boolean {
    return this.named.prefix === undefined && this.named.origin.trusted;
  }

  get status(): SourceStatus {
    const { named, state, since, lastError, last, admission } = this;
    const { source, trusted } = named.origin;
    return {
      source,
      ...(named.prefix !== undefined && { prefix: named.prefix }),
      trusted,
      state,
      since,
      tools: admission.ids,
      quarantined: last.quarantined.slice(0, MOST_LISTED),
      leftOut: last.leftOut + Math.max(0, last.quarantined.length - MOST_LISTED),
      ...(lastError !== undefined && { lastError }),
    };
  }

  /**
   * Asks for its tools, and listens to its changes from then on.
   *
   * @throws {Error} For a source that fails, does not answer in time, or answers with something
   *   else than a list.
   */
  async ask(signal: AbortSignal): Promise<readonly unknown[]> {
    this.askedAt = Date.now();
    this.dueAt = undefined;
    this.isAsked = true;
    this.listen();
    const { answerMs: ms } = this.parts.options;
    const link = linkSignal(signal, { ms, message: `It did not answer within ${ms} ms.` });
    try {
      const asking = Promise.resolve().then(() => this.parts.source.tools(link.signal));
      const answer = await untilAborted<unknown>(asking, link.signal);
      if (isList(answer)) return answer;
      throw new Interruption('failed', 'Its tools() returned no list.');
    } finally {
      this.isAsked = false;
      link.release();
    }
  }

  /** Returns the tools that it is known to have while it has not answered. */
  known(): readonly SourceTool[] {
    return this.parts.source.known?.() ?? [];
  }

  /** Its tools are in the catalog as far as they may be. */
  admitted(last: LivingSource['last']): void {
    this.last = last;
  }

  /** It has answered. */
  answered(): void {
    this.hasAnswered = true;
    this.streaks.failed = 0;
    this.become('ready', undefined);
  }

  /** It did not answer. Returns whether it did so when it was last asked. */
  failed(error: unknown): boolean {
    const hadAnswered = this.state !== 'unreachable';
    this.become('unreachable', describe(error, this.name));
    this.streaks.failed += 1;
    this.due(Date.now() + this.pause(this.streaks.failed));
    return hadAnswered;
  }

  /** Is asked again soon: policy may pin its tools otherwise than when it answered. */
  reconsider(): void {
    this.due(Date.now());
  }

  /** Listens no more, and is not asked again. */
  close(): void {
    this.listening?.unsubscribe();
    this.dueAt = undefined;
  }

  private become(state: SourceStatus['state'], lastError: string | undefined): void {
    if (state !== this.state) this.since = new Date().toISOString();
    this.state = state;
    this.lastError = lastError;
  }

  /**
   * Listens once. A source whose changes end is not listened to again; one whose changes fail is,
   * when it is next asked.
   */
  private listen(): void {
    const { changes$ } = this.parts.source;
    if (changes$ === undefined || (this.listening && !this.isDeaf)) return;
    this.isDeaf = false;
    if (!isObservable(changes$)) return this.deaf(new TypeError('Its changes$ is no Observable.'));
    this.listening = changes$.subscribe({
      next: () => this.changed(),
      error: (error: unknown) => this.deaf(error),
    });
  }

  /**
   * Asks once more for a change that came while it was asked, which may not be in its answer; ever
   * more rarely for a source that keeps changing.
   */
  private changed(): void {
    this.streaks.deaf = 0;
    const now = Date.now();
    if (this.dueAt !== undefined && this.state === 'ready') return;
    const pause = this.pause(this.streaks.changed);
    this.streaks.changed = now - this.askedAt > 2 * pause ? 0 : this.streaks.changed + 1;
    this.due(this.isAsked ? now + pause : Math.max(now, this.askedAt + pause));
  }

  private deaf(error: unknown): void {
    this.isDeaf = true;
    this.streaks.deaf += 1;
    logger.warn(
      `The changes of the source "${this.name}" cannot be followed. It is asked for its tools instead.`,
      error,
    );
    this.due(Date.now() + this.pause(this.streaks.deaf));
  }

  private due(at: number): void {
    this.dueAt = Math.min(at, this.dueAt ?? Number.POSITIVE_INFINITY);
    this.onDue();
  }

  private pause(streak: number): number {
    const { pauseMs, longestPauseMs } = this.parts.options;
    return Math.min(pauseMs * 2 ** Math.max(0, streak - 1), longestPauseMs);
  }
}

const logger = new Logger('ToolSources');

/** The most tools in quarantine that are listed. */
const MOST_LISTED = 100;

/**
 * The name of a source, read once: a source that says something else later is still the one it was.
 */
export interface NamedSource {
  readonly origin: ToolOrigin;
  readonly prefix: string | undefined;
}

/** The parts of a source, and the limits for it. */
export interface SourceParts {
  readonly source: ToolSource;
  readonly named: NamedSource;
  readonly admission: SourceAdmission;
  readonly options: Required<SourceOptions>;
}

function isList(value: unknown): value is readonly unknown[] {
  return Array.isArray(value);
}

/**
 * Describes a failure without the words of others, which may hold addresses and secrets: the log
 * has them.
 */
function describe(error: unknown, name: string): string {
  if (error instanceof Interruption) return error.message;
  const code: unknown = isObject(error)
    ? (error['code'] ?? (isObject(error['cause']) ? error['cause']['code'] : undefined))
    : undefined;
  const isCode = typeof code === 'string' && /^[A-Z][A-Z_\d]{1,39}$/.test(code);
  const reference = randomUUID();
  logger.warn(`The source "${name}" did not answer (reference ${reference}).`, error);
  return `It failed${isCode ? ` with ${code}` : ''} (reference ${reference}).`;
}
