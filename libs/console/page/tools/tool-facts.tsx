import { type ReactNode, useCallback, useState } from 'react';
import type { ExplainedTool } from '@toolloop/client';
import { isJsonObject, readLines } from '../office/json-lines.js';
import { Findings } from '../parts/findings.js';
import { Icon } from '../parts/icon.js';
import { useLoaded } from '../parts/loaded.js';
import { textOf } from '../parts/names.js';
import { Failed } from '../parts/states.js';
import { useConsole } from '../shell/console-context.js';
import { hrefOf } from '../shell/route.js';

/** The entries of the audit that are looked at: the latest. */
const ENTRIES = 2_000;
const MOST_PEOPLE = 12;

/** The calls of a tool that the audit has, in figures. */
interface CallFigures {
  readonly calls: number;
  readonly median: number;
  readonly slow: number;
  /** The numbers of failures by their code. */
  readonly failures: ReadonlyMap<string, number>;
}

interface ToolFactsProps {
  readonly id: string;
}

/**
 * What operators know of a tool: how long its calls take and how they fail, what is wrong with it,
 * and who can reach it.
 */
export function ToolFacts({ id }: ToolFactsProps): ReactNode {
  const { session } = useConsole();
  return (
    <>
      {session.may.includes('sources') && <OwnFindings id={id} />}
      {session.may.includes('audit') && <Figures id={id} />}
      {session.may.includes('explain') && session.may.includes('usage') && <Reach id={id} />}
    </>
  );
}

/** The findings that name the tool, or its source. */
function OwnFindings({ id }: ToolFactsProps): ReactNode {
  const { client } = useConsole();
  const load = useCallback(() => client.request('GET /sources', {}), [client]);
  const { value } = useLoaded(load);
  const found = (value?.findings ?? []).filter(({ at, problem }) =>
    `${at} ${problem}`.split(/[\s"':,.]+/).includes(id),
  );
  return found.length > 0 ? <Findings findings={found} /> : null;
}

function Figures({ id }: ToolFactsProps): ReactNode {
  const { client, words } = useConsole();
  const { t } = words;
  const load = useCallback(async () => {
    const head = await client.request('GET /audit/head', {});
    const last = isJsonObject(head) && typeof head['sequence'] === 'number' ? head['sequence'] : 0;
    return figuresOf(
      id,
      await readLines(await client.auditLines(Math.max(1, last - ENTRIES + 1)), ENTRIES),
    );
  }, [client, id]);
  const { value } = useLoaded(load);
  if (!value) return null;
  const { calls, median, slow, failures } = value;
  return (
    <section className="panel" aria-label={t('facts.title')}>
      <h3>{t('facts.title')}</h3>
      {calls === 0 ? (
        <p className="muted">{t('facts.none')}</p>
      ) : (
        <dl className="metrics">
          <Figure name={t('facts.typical')} value={words.duration(median)} />
          <Figure name={t('facts.slow')} value={words.duration(slow)} />
          <Figure name={t('facts.calls')} value={words.number(calls)} />
          {[...failures].map(([code, n]) => (
            <Figure key={code} name={code} value={words.number(n)} />
          ))}
        </dl>
      )}
      <p className="muted small">{t('facts.lead', { n: ENTRIES })}</p>
    </section>
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

const MEDIAN = 0.5;
const SLOW = 0.95;

function figuresOf(id: string, lines: Awaited<ReturnType<typeof readLines>>): CallFigures {
  const own = lines.filter(({ declaredId }) => declaredId === id);
  const made = own.filter(({ kind }) => kind === 'outcome');
  const times = made
    .flatMap(({ durationMs }) => (typeof durationMs === 'number' ? [durationMs] : []))
    .toSorted((a, b) => a - b);
  const failures = new Map<string, number>();
  for (const { kind, code } of own) {
    if ((kind !== 'outcome' && kind !== 'denied') || code === undefined) continue;
    failures.set(textOf(code), (failures.get(textOf(code)) ?? 0) + 1);
  }
  const at = (share: number): number => times[Math.ceil(times.length * share) - 1] ?? 0;
  return { calls: made.length, median: at(MEDIAN), slow: at(SLOW), failures };
}

/** A person, and what is said to them of the tool. */
interface Reached {
  readonly actorId: string;
  readonly tool: ExplainedTool;
}

/** Who of the people of the last 30 days can call the tool. Each is explained, and in the audit. */
function Reach({ id }: ToolFactsProps): ReactNode {
  const { client, words } = useConsole();
  const { t } = words;
  const [reached, setReached] = useState<readonly Reached[]>();
  const [error, setError] = useState<Error>();
  const ask = (): void => {
    reachOf(client, id).then(setReached, (thrown: unknown) =>
      setError(thrown instanceof Error ? thrown : new Error(String(thrown))),
    );
  };
  return (
    <section className="panel" aria-label={t('facts.reach')}>
      <div className="heading">
        <h3>{t('facts.reach')}</h3>
        <button type="button" className="button" onClick={ask}>
          {t('facts.ask')}
        </button>
      </div>
      <p className="muted small">{t('facts.reachLead')}</p>
      {error && <Failed error={error} />}
      {reached && (
        <ul className="reach">
          {reached.map(({ actorId, tool: { isListed, isCallable } }) => (
            <li key={actorId}>
              <Icon
                name={isCallable === false ? 'lock' : isCallable === 'asks' ? 'wait' : 'check'}
                size={15}
              />
              <a href={hrefOf('why', id, 'as', actorId)}>{actorId}</a>
              <span className="muted">
                {t(
                  `reach.${isCallable === 'asks' ? 'asks' : isCallable ? 'callable' : isListed ? 'listed' : 'hidden'}`,
                )}
              </span>
            </li>
          ))}
        </ul>
      )}
    </section>
  );
}

async function reachOf(
  client: ReturnType<typeof useConsole>['client'],
  id: string,
): Promise<readonly Reached[]> {
  const people = (await client.usage({ groupBy: ['actor'] }))
    .flatMap(({ actor }) => actor ?? [])
    .slice(0, MOST_PEOPLE);
  const reached: Reached[] = [];
  for (const actorId of people) {
    const tool = await client.request('GET /explain/:tool', { tool: id, actorId });
    if ('reasons' in tool) reached.push({ actorId, tool });
  }
  return reached;
}
