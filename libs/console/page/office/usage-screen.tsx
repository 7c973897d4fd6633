import { type ReactNode, useCallback } from 'react';
import type { UsageGroup, UsageSums } from '@toolloop/client';
import { useLoaded } from '../parts/loaded.js';
import { nameOf } from '../parts/names.js';
import { ShareBar } from '../parts/share-bar.js';
import { Failed, Loading, Notice } from '../parts/states.js';
import { useConsole } from '../shell/console-context.js';
import { hrefOf } from '../shell/route.js';
import type { Session } from '../shell/session.js';
import type { Words } from '../words/words.js';

const GROUPS = ['day', 'tool', 'model', 'actor', 'tenant'] as const;
const MOST_BARS = 40;
/** The most rows that a report has. */
const MOST_ROWS = 1_000;

/**
 * What was used in the last 30 days: one's own, for operators that of the tenant, and for those of
 * all tenants that of each.
 */
function UsageScreen({ by }: { readonly by: string | undefined }): ReactNode {
  const { client, words, session } = useConsole();
  const { t } = words;
  const isOperator = session.may.includes('usage');
  const group = groupsFor(session).find((one) => one === by) ?? 'day';
  const own = isOperator ? undefined : session.actor.id;
  const ask = useCallback(
    () =>
      client.usage({
        groupBy: [group],
        limit: MOST_ROWS,
        ...(own !== undefined && { actor: own }),
        ...(group === 'tenant' && { everywhere: true }),
      }),
    [client, group, own],
  );
  const { value, error, reload } = useLoaded(ask);
  const scope = group === 'tenant' ? 'usage.ofAll' : isOperator ? 'usage.ofTenant' : 'usage.own';
  return (
    <div className="page usage">
      <header className="bar-top">
        <h1>{t('nav.usage')}</h1>
        <nav className="filters" aria-label={t('usage.by')}>
          {groupsFor(session).map((one) => (
            <a
              key={one}
              className="filter"
              href={hrefOf('usage', one)}
              aria-current={group === one ? 'true' : undefined}
            >
              {t(`usage.${one}`)}
            </a>
          ))}
        </nav>
      </header>
      <p className="muted">{t(scope, { tenant: session.tenant })}</p>
      {error && <Failed error={error} retry={reload} />}
      {!value && !error && <Loading rows={4} />}
      {value?.length === 0 && <Notice icon="usage" title={t('usage.empty')} />}
      {value && value.length > 0 && <Charts rows={value} group={group} />}
    </div>
  );
}
export default UsageScreen; // oxlint-disable-line import/no-default-export -- React's lazy loads a default

/** The groups that a person may see: tenants are for operators of all of them. */
function groupsFor({ everywhere }: Session): readonly UsageGroup[] {
  return GROUPS.filter((group) => group !== 'tenant' || everywhere.includes('usage'));
}

/** A figure of each row, and how it is written. */
interface Measure {
  readonly title: string;
  readonly of: (row: UsageSums) => number;
  readonly written: (value: number) => string;
}

function measuresOf(words: Words): readonly Measure[] {
  const written = (value: number): string => words.number(value);
  return [
    { title: words.t('usage.calls'), of: (row) => row.calls, written },
    { title: words.t('usage.answers'), of: (row) => row.answers, written },
    {
      title: words.t('usage.tokens'),
      of: ({ inputTokens, outputTokens }) => inputTokens + outputTokens,
      written,
    },
    {
      title: words.t('usage.cost'),
      of: (row) => row.usd,
      written: (value) => words.money(value, 'USD'),
    },
  ];
}

interface ChartsProps {
  readonly rows: readonly UsageSums[];
  readonly group: UsageGroup;
}

function Charts({ rows, group }: ChartsProps): ReactNode {
  const { words } = useConsole();
  const total = ({ of }: Measure): number => rows.reduce((sum, row) => sum + of(row), 0);
  const used = measuresOf(words).filter((measure) => total(measure) > 0);
  const unpriced = rows.reduce((sum, row) => sum + row.unpricedAnswers, 0);
  return (
    <>
      <dl className="metrics big">
        {used.map((measure) => (
          <div key={measure.title}>
            <dt>{measure.title}</dt>
            <dd>{measure.written(total(measure))}</dd>
          </div>
        ))}
      </dl>
      {unpriced > 0 && <p className="muted small">{words.t('usage.unpriced', { n: unpriced })}</p>}
      {rows.length === MOST_ROWS && (
        <p className="muted small">{words.t('usage.cut', { n: MOST_ROWS })}</p>
      )}
      <div className="charts">
        {used.map((measure) => (
          <Bars key={measure.title} {...{ measure, rows, group }} />
        ))}
      </div>
    </>
  );
}

/** The rows as bars: days in their order, everything else the largest first. */
function Bars({
  measure: { title, of, written },
  rows,
  group,
}: ChartsProps & { readonly measure: Measure }): ReactNode {
  const { words } = useConsole();
  const used = rows.filter((row) => of(row) > 0);
  const sorted =
    group === 'day'
      ? used.slice(-MOST_BARS)
      : used.toSorted((one, other) => of(other) - of(one)).slice(0, MOST_BARS);
  const most = Math.max(...used.map(of));
  return (
    <section className="chart" aria-label={title}>
      <h2>{title}</h2>
      <ul>
        {sorted.map((row) => (
          <li key={row[group] ?? ''}>
            <BarName row={row} group={group} />
            <ShareBar share={of(row) / most} />
            <span className="bar-value">{written(of(row))}</span>
          </li>
        ))}
      </ul>
      {used.length > sorted.length && (
        <p className="muted small">{words.t('result.more', { n: used.length - sorted.length })}</p>
      )}
    </section>
  );
}

/** The name of a bar, which opens what it is about: the tool, or the runs of the person. */
function BarName({
  row,
  group,
}: {
  readonly row: UsageSums;
  readonly group: UsageGroup;
}): ReactNode {
  const { words, session } = useConsole();
  const name = row[group];
  if (name === undefined) return <span className="bar-name muted">{words.t('usage.none')}</span>;
  if (group === 'tool')
    return (
      <a className="bar-name" href={hrefOf('tools', name)} title={name}>
        {nameOf(name)}
      </a>
    );
  if (group === 'actor' && session.may.includes('runs'))
    return (
      <a className="bar-name" href={hrefOf('runs', 'of', name)} title={name}>
        {name}
      </a>
    );
  return (
    <span className="bar-name" title={name}>
      {group === 'day' ? words.day(name) : name}
    </span>
  );
}
