import { randomUUID } from 'node:crypto';
import type { OnApplicationBootstrap, OnModuleDestroy } from '@nestjs/common';
import { type DueNotice, Notifier, type PendingNotice } from '../../contracts/notice.js';
import type { Pending, PendingStore } from '../../contracts/pending.js';
import { Logger } from '../../findings/logger.js';
import type { ToolExplorer } from '../../tools/discovery/tool-explorer.js';
import { answeringRoles, nextNoticeAt } from './answering-roles.js';

/**
 * Tells people what waits for them: reminds them, escalates to others, and says when it has
 * expired. One sweep does all of it, in every process that has a `Notifier`; the lease of a notice
 * keeps two processes from telling it at once.
 */
export class PendingNotices implements OnApplicationBootstrap, OnModuleDestroy {
  private readonly logger = new Logger(PendingNotices.name);
  private notifiers: readonly Notifier[] = [];
  private timer: NodeJS.Timeout | undefined;
  private sweeping: Promise<unknown> = Promise.resolve();
  private readonly stopping = new AbortController();

  constructor(
    private readonly store: PendingStore,
    private readonly explorer: Pick<ToolExplorer, 'instancesOf'>,
  ) {}

  onApplicationBootstrap(): void {
    this.notifiers = this.explorer.instancesOf(Notifier);
    if (this.notifiers.length === 0) return;
    this.timer = setInterval(() => this.start(), SWEEP_MS).unref();
    this.start();
  }

  async onModuleDestroy(): Promise<void> {
    this.stopping.abort(new Error('The application is shutting down.'));
    clearInterval(this.timer);
    await this.sweeping;
  }

  /**
   * Tells what is due, and resolves to the number of notices that were told. Several processes may
   * do it at once.
   */
  async sweep(): Promise<number> {
    let told = 0;
    while (!this.stopping.signal.aborted) {
      const owner = randomUUID();
      const due = await this.store.due({ owner, forMs: LEASE_MS }, AT_ONCE);
      const results = await Promise.all(due.map((one) => this.tell(one, owner)));
      told += results.filter(Boolean).length;
      if (due.length < AT_ONCE) return told;
    }
    return told;
  }

  private start(): void {
    this.sweeping = this.sweeping
      .then(() => this.sweep())
      .catch((error: unknown) =>
        this.logger.warn(
          'What waits for people could not be looked through; it is tried again.',
          error,
        ),
      );
  }

  /** Tells one notice to all notifiers, and returns whether each has taken it. */
  private async tell({ record, at, attempts }: DueNotice, owner: string): Promise<boolean> {
    const now = Date.now();
    const notice = noticeOf(record, at, now);
    try {
      const signal = AbortSignal.any([
        this.stopping.signal,
        AbortSignal.timeout(LONGEST_NOTIFY_MS),
      ]);
      await Promise.all(
        this.notifiers.map((notifier) => within(notifier.notify(notice, signal), signal)),
      );
    } catch (error) {
      await this.postpone({ record, at, attempts: attempts + 1 }, owner, error);
      return false;
    }
    await this.next(
      record,
      owner,
      Math.max(now, Date.parse(notice.type === 'expired' ? record.expiresAt : at)),
    );
    return true;
  }

  private async postpone(
    { record, at, attempts }: DueNotice,
    owner: string,
    cause: unknown,
  ): Promise<void> {
    if (attempts >= MOST_ATTEMPTS) {
      this.logger.error(
        `The notice of ${at} about ${record.id} was given up after ${attempts} attempts.`,
        cause,
      );
      return this.next(record, owner, Math.max(Date.now(), Date.parse(at)));
    }
    this.logger.warn(
      `The notice of ${at} about ${record.id} was not taken; it is tried again.`,
      cause,
    );
    const longest = Math.min(FIRST_DELAY_MS * 2 ** (attempts - 1), LONGEST_DELAY_MS);
    return this.store.reschedule(record.id, owner, {
      at,
      attempts,
      dueInMs: longest * (0.5 + Math.random() / 2),
    });
  }

  /** Those that were due meanwhile, while no process was there, are left out. */
  private next(record: Pending, owner: string, after: number): Promise<void> {
    const at = nextNoticeAt(record, after);
    if (at === undefined) return this.store.reschedule(record.id, owner);
    return this.store.reschedule(record.id, owner, {
      at,
      attempts: 0,
      dueInMs: Math.max(0, Date.parse(at) - Date.now()),
    });
  }
}

/** The pause between two looks for notices that are due. */
const SWEEP_MS = 15_000;
/**
 * The notices that are told at once, and the time for each. A lease is longer, so that none is told
 * twice at the same moment.
 */
const AT_ONCE = 16;
const LONGEST_NOTIFY_MS = 10_000;
const LEASE_MS = 30_000;
/**
 * As for a directive: the pause doubles, and after so many attempts the notice is given up, and the
 * next one is told in its time.
 */
const FIRST_DELAY_MS = 1_000;
const LONGEST_DELAY_MS = 300_000;
const MOST_ATTEMPTS = 10;

/** Waits for a notifier no longer than it may take, whether it looks at the signal or not. */
function within(notifying: Promise<void>, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const abort = (): void => reject(signal.reason);
    if (signal.aborted) abort();
    signal.addEventListener('abort', abort, { once: true });
    notifying.then(resolve, reject).finally(() => signal.removeEventListener('abort', abort));
  });
}

function noticeOf(record: Pending, at: string, now: number): PendingNotice {
  const { id, kind, binding, createdAt, expiresAt } = record;
  const isOver = Date.parse(expiresAt) <= now;
  return {
    noticeId: `${id}.${isOver ? 'expired' : Date.parse(at) - Date.parse(createdAt)}`,
    type: isOver ? 'expired' : isEscalation(record, at) ? 'escalation' : 'reminder',
    pendingId: id,
    kind,
    tenant: binding.tenant,
    runId: binding.runId,
    tool: binding.declaredId,
    ...(binding.requesterId !== undefined && { requesterId: binding.requesterId }),
    ...answeringRoles(record, now),
    createdAt,
    expiresAt,
  };
}

function isEscalation({ admitted, createdAt }: Pending, at: string): boolean {
  return admitted.some(({ escalation = [] }) =>
    escalation.some(({ afterMs }) => Date.parse(createdAt) + afterMs === Date.parse(at)),
  );
}
