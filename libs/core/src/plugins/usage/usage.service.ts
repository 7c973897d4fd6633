import { Injectable } from '@nestjs/common';
import { InvalidRequestError } from '@toolloop/protocol';
import { Operators } from '../operators/operators.js';
import type { Operator } from '../../contracts/operator.js';
import type { RegisteredActor } from '../../contracts/registered-actor.js';
import {
  USAGE_DIMENSIONS,
  type UsageDimension,
  type UsageQuery,
  type UsageRow,
  usageSortKey,
  type UsageStore,
} from '../../contracts/usage.js';
import { BoundedStores } from '../../call/bounded-stores.js';
import {
  BOOLEAN,
  listOf,
  needed,
  oneOf,
  TEXT,
  WHOLE_ABOVE_ZERO,
} from '../../findings/option-rules.js';
import { defineOptions, type OptionRule } from '../../findings/options.js';
import { ActorIdentity } from '../../policy/actor-identity.js';
import { parseJson } from '../../schema/canonical-json.js';
import { UsageLedger } from './usage-ledger.js';

/**
 * Reports what tenants have used: calls, answers of models, tokens and cost, by actor, tool, model
 * and day.
 */
@Injectable()
export class UsageService<Actor = RegisteredActor> {
  private readonly store: UsageStore;

  constructor(
    stores: BoundedStores,
    private readonly ledger: UsageLedger,
    private readonly identity: ActorIdentity<Actor>,
    private readonly operators: Operators<Actor>,
  ) {
    this.store = stores.usage;
  }

  /**
   * Reports what was used. A person may see their own use; that of others in their tenant, of other
   * tenants and of all of them is for operators (`usage`), whose use of that right is in the audit.
   * What this process has noted is counted first; that of other processes may be a second late.
   *
   * @throws {InvalidRequestError} For a query that makes no sense; the message says what to give
   *   instead.
   * @throws {OperatorError} For the use of others.
   *
   * @example
   * const { rows } = await usage.report(
   *   { tenant, from: '2026-11-01', to: '2026-11-30', groupBy: ['model'] },
   *   { actor, tenant },
   * );
   */
  async report(query: UsageReportQuery, reader: Operator<Actor>): Promise<UsageReport> {
    const asked = checked(query);
    const { tenant, actor, from, to } = asked;
    const own = this.identity.idOf(reader.actor);
    if (tenant !== reader.tenant || actor === undefined || actor !== own) {
      const details = { from, to, ...(actor !== undefined && { actor }) };
      await this.operators.use(reader, 'usage', {
        ...(tenant === undefined ? { everywhere: true } : { tenant }),
        details,
      });
    }
    await this.ledger.flush();
    const rows = await this.store.report(asked);
    const last = rows.length === asked.limit ? rows.at(-1) : undefined;
    return {
      rows,
      ...(last && asked.groupBy.length > 0 && { next: cursorOf(last, asked.groupBy) }),
    };
  }
}

const MOST_ROWS = 1_000;

const MOST_DAYS = 400;

const DAY_MS = 86_400_000;

/** A selection of what was used. */
export interface UsageReportQuery {
  /** Needed, unless it is about all of them. */
  readonly tenant?: string;
  /**
   * True for the use of all tenants, which only operators of all of them may see. @default false
   */
  readonly everywhere?: boolean;
  /** The id of an actor. @default all actors, which only operators may see */
  readonly actor?: string;
  /** The declared id of a tool. @default all tools, and what belongs to none */
  readonly tool?: string;
  /** A model as `provider/modelId`. @default all models, and calls without one */
  readonly model?: string;
  /** The first day in UTC: `2026-11-01`. */
  readonly from: string;
  /** The last day in UTC, included. At most 400 days from the first on. */
  readonly to: string;
  /**
   * One row for each combination of these: `['day', 'model']`. @default none: one row, the sum of
   * all
   */
  readonly groupBy?: readonly UsageDimension[];
  /** Rows of a page, at most 1,000. @default 100 */
  readonly limit?: number;
  /** The `next` of the page before; the rest of the query is the same. */
  readonly after?: string;
}

/** A page of a report. */
export interface UsageReport {
  /** In the order of `groupBy`. */
  readonly rows: readonly UsageRow[];
  /** Set where there may be more: give it as `after`. */
  readonly next?: string;
}

const DAY: OptionRule<string> = {
  wanted: "a day in UTC, such as '2026-11-23'",
  accept: (value) => typeof value === 'string' && isDay(value),
};

const QUERY = defineOptions<UsageReportQuery>(
  {
    tenant: { ...TEXT, accept: (value) => typeof value === 'string' && value !== '' },
    everywhere: BOOLEAN,
    actor: TEXT,
    tool: TEXT,
    model: TEXT,
    from: needed(DAY),
    to: needed(DAY),
    groupBy: listOf(oneOf(...USAGE_DIMENSIONS), `a list of ${USAGE_DIMENSIONS.join(', ')}`),
    limit: {
      ...WHOLE_ABOVE_ZERO,
      wanted: `a whole number from 1 to ${MOST_ROWS}`,
      accept: (value) => WHOLE_ABOVE_ZERO.accept(value) && Number(value) <= MOST_ROWS,
    },
    after: TEXT,
  },
  { together: rangeFindings },
);

function rangeFindings(
  { tenant, everywhere = false, from, to, groupBy = [] }: Partial<UsageReportQuery>,
  at: string,
): ReturnType<typeof QUERY.findings> {
  const findings = [];
  if (everywhere === (tenant !== undefined))
    findings.push({
      at,
      problem: 'It is about one tenant or all of them.',
      remedy: 'Give either the "tenant", or "everywhere": true.',
    });
  if (new Set(groupBy).size < groupBy.length)
    findings.push({
      at,
      problem: 'It is grouped by the same twice.',
      remedy: 'Name each dimension once.',
    });
  if (from === undefined || to === undefined) return findings;
  if (from > to)
    findings.push({
      at,
      problem: `Its first day, ${from}, is after its last, ${to}.`,
      remedy: 'Give the earlier one as "from".',
    });
  if (Date.parse(to) - Date.parse(from) >= MOST_DAYS * DAY_MS)
    findings.push({
      at,
      problem: `It spans more than ${MOST_DAYS} days, which is as long as use is kept.`,
      remedy: 'Ask for less.',
    });
  return findings;
}

/** A client may have sent it: what is wrong is the caller's to mend. */
function checked(query: UsageReportQuery): UsageQuery {
  const findings = QUERY.findings(query, 'usage.report');
  if (findings.length > 0)
    throw invalid(findings.map(({ problem, remedy }) => `${problem} ${remedy}`).join(' '));
  const { groupBy = [], limit = 100, after, everywhere: _all, ...rest } = QUERY.copy(query);
  return {
    ...rest,
    groupBy,
    limit,
    ...(after !== undefined && { after: fromCursor(after, groupBy) }),
  };
}

/** Databases know no year 0. */
const FIRST_DAY = '0001-01-01';

function isDay(text: string): boolean {
  const ms = /^\d{4}-\d\d-\d\d$/.test(text) ? Date.parse(text) : Number.NaN;
  // the 30th of February is another day
  return !Number.isNaN(ms) && text >= FIRST_DAY && new Date(ms).toISOString().startsWith(text);
}

function cursorOf(row: UsageRow, groupBy: readonly UsageDimension[]): string {
  return Buffer.from(
    JSON.stringify(groupBy.map((name) => [name, usageSortKey(row[name])])),
  ).toString('base64url');
}

function fromCursor(after: string, groupBy: readonly UsageDimension[]): readonly string[] {
  const parts = partsIn(after);
  const keys = parts
    .map(([name, key], index) => (name === groupBy[index] ? key : undefined))
    .filter((key) => typeof key === 'string');
  if (
    parts.length === 0 ||
    parts.length !== groupBy.length ||
    keys.length !== parts.length ||
    !keys.every(isSortKey)
  )
    throw invalid(
      'The "after" is not of a report with this "groupBy". Give the `next` of the page before, and the same query.',
    );
  return keys;
}

/** Tells whether a text is JSON, as a sort key is: no NUL stands in it as it is. */
const isSortKey = (key: string): boolean => parseJson(key) !== undefined;

function partsIn(after: string): readonly (readonly unknown[])[] {
  try {
    const parts: unknown = JSON.parse(Buffer.from(after, 'base64url').toString());
    return Array.isArray(parts) ? parts.filter((part: unknown) => Array.isArray(part)) : [];
  } catch {
    return [];
  }
}

function invalid(message: string): InvalidRequestError {
  return new InvalidRequestError('invalid_request', message);
}
