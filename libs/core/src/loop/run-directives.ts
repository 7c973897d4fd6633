import type { Finding } from '@toolloop/protocol';
import {
  BOOLEAN,
  defineOptions,
  ITS,
  oneOf,
  type OptionRule,
  type OptionTable,
  WHOLE_ABOVE_ZERO,
  wholeFrom,
} from '../findings/options.js';
import type { LoopEventBody } from '@toolloop/protocol';
import type { Subscription } from 'rxjs';
import type { DirectiveEvent, DirectiveStore } from '../contracts/directive.js';
import type { ExecutionScope } from '../execution/call.js';

/** The way an application looks after its directives. */
export interface DirectiveOptions {
  /**
   * Roles of those who see every directive of their tenant, undo what was performed, and decide on
   * what failed. @default the actor who requested a directive does that for their own
   */
  readonly operators?: readonly string[];
  /**
   * The treatment of tools that have an `external_side_effect` in their call instead of requesting
   * it by a directive: `warn` names them in the log at start, `refuse` keeps the application from
   * starting. Tools of other sources are not meant. @default 'warn'
   */
  readonly immediateEffects?: 'allow' | 'warn' | 'refuse';
  /** Lets this process perform directives; with `false` it only requests them. @default true */
  readonly perform?: boolean;
  /** The most directives that this process performs at once. @default 8 */
  readonly concurrency?: number;
  /**
   * Milliseconds before the second attempt; each further one waits twice as long, less up to half
   * of it by chance. @default 1,000
   */
  readonly firstDelayMs?: number;
  /** @default 300,000, five minutes */
  readonly longestDelayMs?: number;
  /** Milliseconds between the heartbeats of a process that performs a directive. @default 3,000 */
  readonly heartbeatMs?: number;
  /**
   * After how many milliseconds of silence another process takes up what was being performed;
   * several heartbeats. @default 15,000
   */
  readonly takeoverMs?: number;
}

export const DEFAULT_DIRECTIVES = {
  immediateEffects: 'warn',
  perform: true,
  concurrency: 8,
  firstDelayMs: 1_000,
  longestDelayMs: 300_000,
  heartbeatMs: 3_000,
  takeoverMs: 15_000,
} satisfies DirectiveOptions;

/** The longest that a timer of Node's takes; more is one millisecond. */
const INTERVAL = wholeFrom(1, 2 ** 31 - 1);
const DELAY: OptionRule<number> = {
  wanted: 'milliseconds, 0 or more',
  accept: (value) => typeof value === 'number' && value >= 0 && value < Infinity,
};
const ROLES: OptionRule<readonly string[]> = {
  wanted: "a list of roles, such as ['manager'], or leave it out",
  accept: (value) =>
    Array.isArray(value) &&
    value.length > 0 &&
    value.every((role) => typeof role === 'string' && role.trim() !== ''),
  problem: (value) => `Its operators is ${JSON.stringify(value)}.`,
};

/** The options, with the defaults of those that are left out. */
export function directiveOptionsOf(
  options: DirectiveOptions = {},
): DirectiveOptions & typeof DEFAULT_DIRECTIVES {
  return DIRECTIVES.merge(DEFAULT_DIRECTIVES, options);
}

/** The option table of directives. The options may come from a file that no compiler has seen. */
export const DIRECTIVES: OptionTable<DirectiveOptions> = defineOptions<DirectiveOptions>(
  {
    operators: ROLES,
    immediateEffects: oneOf('allow', 'warn', 'refuse'),
    perform: BOOLEAN,
    concurrency: WHOLE_ABOVE_ZERO,
    firstDelayMs: DELAY,
    longestDelayMs: DELAY,
    heartbeatMs: INTERVAL,
    takeoverMs: INTERVAL,
  },
  { wording: ITS, together: timeFindings },
);

function timeFindings(options: DirectiveOptions, at: string): Finding[] {
  const { firstDelayMs, longestDelayMs, heartbeatMs, takeoverMs } = directiveOptionsOf(options);
  const findings: Finding[] = [];
  if (longestDelayMs < firstDelayMs)
    findings.push({
      at,
      problem: `It waits from ${firstDelayMs} to ${longestDelayMs} ms.`,
      remedy: 'Give a longestDelayMs that is at least the firstDelayMs.',
    });
  if (takeoverMs < 2 * heartbeatMs)
    findings.push({
      at,
      problem: `Its takeoverMs of ${takeoverMs} is less than two heartbeats of ${heartbeatMs}.`,
      remedy: 'Give more, or a directive is taken from a process that is still performing it.',
    });
  return findings;
}

type Requested = Extract<LoopEventBody, { readonly type: 'directive-request' }>;

/** A run that requested directives and has not ended. */
interface FollowingRun {
  readonly emit: ExecutionScope['emit'];
  /** The requested directives, by their ids. */
  readonly requests: Map<string, Requested>;
}

/** Reports changes of directives to the runs that requested them, until they end. */
export class DirectiveUpdates {
  private readonly runs = new Map<string, FollowingRun>();
  private subscription: Subscription | undefined;

  constructor(private readonly store: DirectiveStore) {}

  /**
   * The scope of a call whose request is followed from the moment it is told, until the run
   * forgets.
   */
  following(scope: ExecutionScope): ExecutionScope {
    const emit: ExecutionScope['emit'] = (event) => {
      if (event.type === 'directive-request') this.follow(event, scope);
      return scope.emit(event);
    };
    return { ...scope, emit };
  }

  forget(runId: string): void {
    if (this.runs.size === 0) return; // as after most calls: looking for a new id means to hash it
    if (!this.runs.delete(runId) || this.runs.size > 0) return;
    this.subscription?.unsubscribe();
    this.subscription = undefined;
  }

  private follow(requested: Requested, scope: ExecutionScope): void {
    const { runId } = scope.run;
    this.subscription ??= this.store.changes$.subscribe((event) => this.tell(event));
    const run = this.runs.get(runId) ?? {
      emit: (event) => scope.emit(event),
      requests: new Map<string, Requested>(),
    };
    this.runs.set(runId, run);
    run.requests.set(requested.directive.directiveId, requested);
  }

  private tell({ directiveId, event, status }: DirectiveEvent): void {
    for (const { emit, requests } of this.runs.values()) {
      const requested = requests.get(directiveId);
      if (requested)
        void emit({
          type: 'directive-update',
          step: requested.step,
          event,
          directive: { ...requested.directive, status },
        });
    }
  }
}

/** The times of a lease, in milliseconds. */
interface LeaseTerms {
  readonly everyMs: number;
  /**
   * The longest time to an end. A holder that has not ended by then has hung, and loses the lease.
   */
  readonly mostMs: number;
}

/**
 * Tells again and again that a process is still at work, so that a short silence says that it is
 * gone. It never keeps the process alive.
 */
export class HeldLease {
  private readonly since = Date.now();
  private timer: NodeJS.Timeout | undefined;

  constructor(
    /** `false` once the lease is another holder's. */
    private readonly renew: () => Promise<boolean>,
    private readonly terms: LeaseTerms,
  ) {
    this.sleep();
  }

  end(): void {
    clearTimeout(this.timer);
    this.timer = undefined;
  }

  private sleep(): void {
    this.timer = setTimeout(() => void this.beat(), this.terms.everyMs).unref();
  }

  /** A store that fails once may answer the next time, and until then the lease has not run out. */
  private async beat(): Promise<void> {
    if (Date.now() - this.since >= this.terms.mostMs) return;
    const { timer } = this;
    const isHeld = await this.renew().catch(() => true);
    if (isHeld && this.timer === timer) this.sleep();
  }
}
