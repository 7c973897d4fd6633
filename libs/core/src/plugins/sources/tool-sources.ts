import { type BeforeApplicationShutdown, Injectable, Optional } from '@nestjs/common';
import {
  type Finding,
  InvalidRequestError,
  type JsonObject,
  type ToolOrigin,
} from '@toolloop/protocol';
import type { Subscription } from 'rxjs';
import { AuditTrail } from '../audit/audit-trail.js';
import { Operators } from '../operators/operators.js';
import { AnnouncedTools } from '../../catalog/announced-tools.js';
import { ToolCatalog } from '../../catalog/tool-catalog.js';
import { isUnder } from '../../catalog/tool-selection.js';
import type { Operator } from '../../contracts/operator.js';
import {
  DEFAULT_SOURCES,
  type SourceOptions,
  SOURCES,
  type SourceStatus,
  type ToolSource,
} from '../../contracts/source.js';
import { foldedId } from '../../tools/discovery/tool-names.js';
import { Interruption, withinTime } from '../../contracts/interruption.js';
import { Logger } from '../../findings/logger.js';
import { LoopSettings } from '../../run/loop-settings.js';
import { DataPolicyEngine } from '../../policy/policy-engine.js';
import { LivingSource } from './living-source.js';
import { type Admission, SourceAdmission, type SourceBeginning } from './source-admission.js';

/**
 * The sources of tools of the application: it asks them when the application starts, again while
 * they do not answer, and whenever they say that they have changed.
 *
 * @example
 * constructor(private readonly sources: ToolSources) {}
 *
 * unwell(): readonly SourceStatus[] {
 *   return this.sources
 *     .list()
 *     .filter(({ state, quarantined }) => state !== 'ready' || quarantined.length > 0);
 * }
 */
@Injectable()
export class ToolSources implements BeforeApplicationShutdown {
  private readonly logger = new Logger(ToolSources.name);
  private readonly options: Required<SourceOptions>;
  private readonly ending = new AbortController();
  private readonly reading = new Map<LivingSource, Promise<void>>();
  /** The answers that came before the catalog was filled. */
  private readonly early = new Map<LivingSource, readonly unknown[]>();
  private sources: readonly LivingSource[] = [];
  private isOpen = false;
  private following: Subscription | undefined;
  private timer: NodeJS.Timeout | undefined;
  private byStrategies: readonly string[] = [];
  /** Finds what is wrong with policies by now. */
  private recheck: (announced: AnnouncedTools) => readonly Finding[] = () => [];

  constructor(
    private readonly catalog: ToolCatalog,
    private readonly settings: LoopSettings,
    private readonly inForce: DataPolicyEngine,
    private readonly operators: Operators,
    @Optional() private readonly trail?: AuditTrail,
  ) {
    this.options = { ...DEFAULT_SOURCES, ...SOURCES.sound(settings.options.sources ?? {}) };
  }

  /** Lists the sources and how they are, in the order in which they were provided. */
  list(): readonly SourceStatus[] {
    return this.sources.map(({ status }) => status);
  }

  /**
   * Asks the source with a prefix, or with a name where it announces none, for its tools now. It
   * resolves when its answer is in the catalog, or it has failed to answer. With a person who asks
   * for it, they must be an operator for all tenants, since the tools of a source are those of all.
   *
   * @throws {InvalidRequestError} For a source that the application does not have.
   * @throws {OperatorError} Where `forRoot({ operators })` does not answer `'all'` to the person's
   *   `sources`.
   * @example
   * const [{ state, tools }] = await sources.refresh('github', {
   *   actor: user,
   *   tenant: user.tenantId,
   * });
   */
  async refresh(prefix: string, operator?: Operator): Promise<readonly SourceStatus[]> {
    if (operator)
      await this.operators.use(operator, 'sources', {
        everywhere: true,
        details: { do: 'refresh', source: prefix },
      });
    const named = this.sources.filter(({ name }) => name === prefix);
    if (named.length === 0) {
      const known = this.sources.map(({ name }) => `"${name}"`).join(', ') || 'none';
      throw new InvalidRequestError(
        'invalid_request',
        `There is no source "${prefix}". Known: ${known}.`,
      );
    }
    await Promise.all(
      named.map(async (one) => this.reading.get(one)?.then(() => this.read(one)) ?? this.read(one)),
    );
    return named.map(({ status }) => status);
  }

  /**
   * Asks all sources, and waits for them as long as the start may. Called once, before the catalog
   * is filled.
   */
  async begin(sources: readonly ToolSource[]): Promise<SourceBeginning> {
    this.sources = sources.map((source) => this.living(source));
    await withinTime(
      Promise.all(this.sources.map((one) => this.read(one))),
      this.options.startMs,
    ).catch(() => undefined);
    const own = this.sources
      .filter((one) => one.isOwn && this.early.has(one))
      .map((one) => this.adopted(one));
    return {
      entries: own.flatMap(({ entries }) => entries),
      findings: own.flatMap(({ findings }) => findings),
      warnings: own.flatMap(({ warnings }) => warnings),
    };
  }

  /**
   * Announces the tools that may still come to the catalog: those under the prefixes of sources,
   * those of sources without one that are in quarantine, and those that strategies bring.
   */
  announce(byStrategies = this.byStrategies): void {
    this.byStrategies = byStrategies;
    const prefixes = new Map<string, ToolOrigin>();
    const quarantined: string[] = [];
    for (const { named, status } of this.sources) {
      if (named.prefix !== undefined) prefixes.set(named.prefix, named.origin);
      else quarantined.push(...status.quarantined.map(({ id }) => id));
    }
    this.catalog.announced = new AnnouncedTools([...byStrategies, ...quarantined], prefixes);
  }

  /**
   * Returns the findings in the prefixes of sources, once the application's own tools are in the
   * catalog.
   */
  findings(): readonly Finding[] {
    const known = this.sources.map(({ named }) => named.prefix);
    return this.sources.flatMap(({ named: { prefix, origin } }, index) => {
      const problem =
        prefix === undefined ? undefined : this.prefixProblem(prefix, known.slice(0, index));
      return problem === undefined ? [] : [{ at: `source ${origin.source}`, ...problem }];
    });
  }

  /**
   * Returns a finding for each source that has not answered and announces no prefix, whose tools no
   * policy can name by now.
   */
  missing(): readonly Finding[] {
    return this.sources
      .filter(({ hasAnswered, named }) => !hasAnswered && named.prefix === undefined)
      .map(({ name }) => ({
        at: `source ${name}`,
        problem: 'It has not answered, so that none of its tools is known.',
        remedy: 'Announce the prefix of its ids: policies may then name them before it answers.',
      }));
  }

  /**
   * Lets the tools of strangers and of sources with a prefix in, now that the application's own are
   * in the catalog, and from now on whenever they come.
   */
  async open(recheck: ToolSources['recheck']): Promise<void> {
    this.recheck = recheck;
    const absent = this.sources.filter(
      (one) => !one.isOwn && !one.hasAnswered && !this.early.has(one),
    );
    // what it answers meanwhile is early
    for (const one of absent) await this.tried(one, () => this.admitKnown(one));
    this.isOpen = true;
    for (const [one, answer] of this.early) await this.tried(one, () => this.admit(one, answer));
    this.early.clear();
    for (const one of this.sources) if (!one.hasAnswered) this.reportState(one);
    this.reportPolicies();
    const strangers = this.sources.filter(({ named }) => !named.origin.trusted);
    this.following = this.inForce.changed$.subscribe(() =>
      strangers.forEach((one) => one.reconsider()),
    );
    this.schedule();
  }

  /** Asks no source any more, and lets go of all that it listens to. */
  close(): void {
    this.ending.abort(new Interruption('aborted', 'The application shuts down.'));
    clearTimeout(this.timer);
    this.following?.unsubscribe();
    for (const one of this.sources) one.close();
  }

  beforeApplicationShutdown(): void {
    this.close();
  }

  private living(source: ToolSource): LivingSource {
    const { origin, prefix } = source;
    const named = {
      origin: Object.freeze({ source: origin.source, trusted: origin.trusted }),
      prefix,
    };
    const limits = { most: this.options.tools, isPinned: source.isPinned === true };
    const admission = new SourceAdmission(this.catalog, this.settings, { ...named, ...limits });
    return new LivingSource({ source, named, admission, options: this.options }, () =>
      this.schedule(),
    );
  }

  private adopted(one: LivingSource): SourceBeginning {
    const beginning = one.admission.adopt(this.early.get(one) ?? []);
    this.early.delete(one);
    one.answered();
    return beginning;
  }

  /** @param before the prefixes of the sources before it */
  private prefixProblem(
    prefix: string,
    before: readonly (string | undefined)[],
  ): Omit<Finding, 'at'> | undefined {
    const remedy =
      'Announce another prefix: letters, digits and -, between them _ or __, 32 characters at most.';
    if (typeof prefix !== 'string' || !SAFE_PREFIX.test(prefix))
      return { problem: `Its prefix ${JSON.stringify(prefix)} is none.`, remedy };
    const folded = foldedId(prefix);
    const same = before.find(
      (other) => typeof other === 'string' && overlap(folded, foldedId(other)),
    );
    if (same !== undefined)
      return { problem: `Another source announces the prefix "${same}" as well.`, remedy };
    const taken = this.catalog
      .subjects()
      .find(({ declaredId }) => isUnder(folded, foldedId(declaredId)));
    const entity = this.catalog.entities.definitions.find((one) => foldedId(one.prefix) === folded);
    const whose = taken?.declaredId ?? (entity && `tools of the entity ${entity.type.name}`);
    return whose === undefined
      ? undefined
      : { problem: `Its prefix "${prefix}" is taken by ${whose}.`, remedy };
  }

  /** One answer at a time of each source. */
  private read(one: LivingSource): Promise<void> {
    const known = this.reading.get(one);
    if (known) return known;
    const reading = this.tried(one, async () => {
      const answer = await one.ask(this.ending.signal);
      if (this.isOpen) await this.admit(one, answer);
      else this.early.set(one, answer);
    }).finally(() => {
      this.reading.delete(one);
      this.schedule();
    });
    this.reading.set(one, reading);
    return reading;
  }

  /** Whatever fails with a source leaves the others as they are. */
  private async tried(one: LivingSource, work: () => Promise<void>): Promise<void> {
    if (this.ending.signal.aborted) return;
    try {
      await work();
    } catch (error) {
      if (this.ending.signal.aborted) return;
      const isNew = one.failed(error);
      if (!this.isOpen) return;
      this.reportState(one);
      if (isNew) this.record(one, { state: 'unreachable' });
    }
  }

  private async admitKnown(one: LivingSource): Promise<void> {
    const known = one.known();
    if (known.length > 0) await this.takeIn(one, known);
  }

  private admit(one: LivingSource, answer: readonly unknown[]): Promise<void> {
    return this.takeIn(one, answer, () => one.answered());
  }

  private async takeIn(
    one: LivingSource,
    given: readonly unknown[],
    onAdmitted?: () => void,
  ): Promise<void> {
    const before = one.status;
    const admission = await one.admission.admit(given);
    one.admitted(admission);
    onAdmitted?.();
    this.announce();
    this.reportState(one);
    this.catalog.report(`${this.keyOf(one)} tools`, admission.findings.slice(0, MOST_LISTED));
    this.reportPolicies();
    this.tell(one, before, admission);
  }

  /** Logs and records what is new, and not what was so before. */
  private tell(
    one: LivingSource,
    before: SourceStatus,
    { added, removed, findings }: Admission,
  ): void {
    const { status } = one;
    const isSame =
      JSON.stringify(before.quarantined) === JSON.stringify(status.quarantined) &&
      before.leftOut === status.leftOut;
    if (!isSame || added.length > 0)
      for (const { at, problem, remedy } of findings.slice(0, MOST_TOLD))
        this.logger.warn(`${at}: ${problem} ${remedy}`);
    if (isSame && added.length + removed.length === 0) return;
    const quarantined = status.quarantined
      .slice(0, MOST_TOLD)
      .map(({ id, reason }) => ({ id, reason }));
    this.record(one, {
      state: status.state,
      added: told(added),
      removed: told(removed),
      quarantined,
      leftOut: status.leftOut,
    });
  }

  private reportState(one: LivingSource): void {
    const { state, lastError } = one.status;
    const remedy = 'Its tools join when it answers; see ToolSources.list().';
    const problem =
      state === 'starting'
        ? 'It has not answered yet, so its tools are missing.'
        : `It does not answer. ${lastError ?? ''}`;
    this.catalog.report(
      `${this.keyOf(one)} state`,
      state === 'ready' ? [] : [{ at: `source ${one.name}`, problem: problem.trim(), remedy }],
    );
  }

  /** Ids under the prefix of a source that has answered are known, or wrong. */
  private reportPolicies(): void {
    const known = this.sources.flatMap(({ hasAnswered, named: { prefix } }) =>
      hasAnswered && prefix !== undefined ? [prefix] : [],
    );
    if (known.length > 0)
      this.catalog.report('policies', this.recheck(this.catalog.announced.without(new Set(known))));
  }

  private keyOf(one: LivingSource): string {
    return `source ${this.sources.indexOf(one)} ${one.name}`;
  }

  /** Keeps an entry of the audit. What a source does cannot be refused for want of it. */
  private record({ named }: LivingSource, details: JsonObject): void {
    const { source } = named.origin;
    void this.trail?.after({
      tenant: APPLICATION_TENANT,
      subject: {},
      event: { kind: 'source', source, details },
    });
  }

  /** The one timer: for the source that is due first. It does not keep the process alive. */
  private schedule(): void {
    clearTimeout(this.timer);
    if (!this.isOpen || this.ending.signal.aborted) return;
    const waiting = this.sources.filter((one) => !this.reading.has(one));
    const due = Math.min(...waiting.map(({ dueAt = Number.POSITIVE_INFINITY }) => dueAt));
    if (due === Number.POSITIVE_INFINITY) return;
    this.timer = setTimeout(
      () => this.readDue(),
      Math.min(Math.max(0, due - Date.now()), LONGEST_TIMER_MS),
    ).unref();
  }

  private readDue(): void {
    const now = Date.now();
    for (const one of this.sources)
      if (one.dueAt !== undefined && one.dueAt <= now) void this.read(one);
    this.schedule();
  }
}

/**
 * The tenant in whose audit chain are the entries about sources, which belong to no tenant of the
 * application.
 */
export const APPLICATION_TENANT = '@application';

/** The most of one kind in an entry of the audit and in the log. */
const MOST_TOLD = 50;
const LONGEST_TIMER_MS = 2 ** 31 - 1;

/**
 * One part or more, between which are two underscores; none ends with one, or an id could begin
 * with two prefixes.
 */
const SAFE_PREFIX = /^(?=.{1,32}$)[a-zA-Z][a-zA-Z0-9-]*(?:__?[a-zA-Z0-9-]+)*$/;
/** The most findings about the tools of one source. */
const MOST_LISTED = 100;

/** Tells whether an id can stand under both prefixes. */
function overlap(one: string, other: string): boolean {
  return one === other || isUnder(one, other) || isUnder(other, one);
}

function told(ids: readonly string[]): string[] {
  return ids.length > MOST_TOLD
    ? [...ids.slice(0, MOST_TOLD), `… and ${ids.length - MOST_TOLD} more`]
    : [...ids];
}
