import { type ReactNode, useCallback, useState } from 'react';
import type { UsageGroup, UsageSums } from '@toolloop/client';
import { useLoaded } from '../parts/loaded.js';
import { nameOf } from '../parts/names.js';
import { ShareBar } from '../parts/share-bar.js';
import { Failed, Loading, Notice } from '../parts/states.js';
import { useConsole } from '../shell/console-context.js';

const GROUPS = ['day', 'tool', 'model', 'actor'] as const;
const MOST_BARS = 60;

/** What was used in the last 30 days: one's own, and for operators that of the tenant. */
function UsageScreen(): ReactNode {
  const { client, words, session } = useConsole();
  const { t } = words;
  const [group, setGroup] = useState<UsageGroup>('day');
  const isOperator = session.may.includes('usage');
  const own = isOperator ? undefined : session.actor.id;
  const ask = useCallback(() => client.usage({ groupBy: [group], ...(own !== undefined && { actor: own }) }), [client, group, own]);
  const { value, error, reload } = useLoaded(ask);
  return (
    <div className="page usage">
      <header className="bar-top">
        <h1>{t('nav.usage')}</h1>
        <div className="filters" role="group" aria-label={t('usage.by')}>
          {GROUPS.map((one) => (
            <button key={one} type="button" className="filter" aria-pressed={group === one} onClick={() => setGroup(one)}>
              {t(`usage.${one}`)}
            </button>
          ))}
        </div>
      </header>
      <p className="muted">{t(isOperator ? 'usage.ofTenant' : 'usage.own', { tenant: session.tenant })}</p>
      {error && <Failed error={error} retry={reload} />}
      {!value && !error && <Loading rows={4} />}
      {value?.length === 0 && <Notice icon="usage" title={t('usage.empty')} />}
      {value && value.length > 0 && <Charts rows={value} group={group} />}
    </div>
  );
}
export default UsageScreen; // oxlint-disable-line import/no-default-export -- React's lazy loads a default

function tokens({ inputTokens, outputTokens }: UsageSums): number {
  return inputTokens + outputTokens;
}

function Charts({ rows, group }: { readonly rows: readonly UsageSums[]; readonly group: UsageGroup }): ReactNode {
  const { words } = useConsole();
  const { t } = words;
  const total = (measure: (row: UsageSums) => number): number => rows.reduce((sum, row) => sum + measure(row), 0);
  const [calls, answers, used, usd] = [total((row) => row.calls), total((row) => row.answers), total(tokens), total((row) => row.usd)];
  return (
    <>
      <dl className="metrics big">
        <Figure name={t('usage.calls')} value={words.number(calls)} />
        <Figure name={t('usage.answers')} value={words.number(answers)} />
        <Figure name={t('usage.tokens')} value={words.number(used)} />
        {usd > 0 && <Figure name={t('usage.cost')} value={words.money(usd, 'USD')} />}
      </dl>
      <Bars title={t('usage.calls')} rows={rows} group={group} measure={(row) => row.calls} />
      <Bars title={t('usage.tokens')} rows={rows} group={group} measure={tokens} />
    </>
  );
}

function Figure({ name, value }: { readonly name: string; readonly value: string }): ReactNode {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{value}</dd>
    </div>
  );
}

interface BarsProps {
  readonly title: string;
  readonly rows: readonly UsageSums[];
  readonly group: UsageGroup;
  readonly measure: (row: UsageSums) => number;
}

function Bars({ title, rows, group, measure }: BarsProps): ReactNode {
  const { words } = useConsole();
  const shown = rows.filter((row) => measure(row) > 0).slice(-MOST_BARS);
  const most = Math.max(1, ...shown.map(measure));
  if (shown.length === 0) return null;
  return (
    <section className="chart">
      <h2>{title}</h2>
      <ul>
        {shown.map((row) => {
          const name = row[group] ?? words.t('usage.none');
          return (
            <li key={name}>
              <span className="bar-name">{group === 'tool' && row.tool !== undefined ? nameOf(name) : name}</span>
              <ShareBar share={measure(row) / most} />
              <span className="bar-value">{words.number(measure(row))}</span>
            </li>
          );
        })}
      </ul>
    </section>
  );
}
