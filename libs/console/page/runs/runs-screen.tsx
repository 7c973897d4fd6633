import { type ReactNode, useCallback, useMemo, useState } from 'react';
import type { Run, RunSelection } from '@toolloop/client';
import { Icon } from '../parts/icon.js';
import { useLoaded } from '../parts/loaded.js';
import { Failed, Loading, Notice } from '../parts/states.js';
import { VirtualList } from '../parts/virtual-list.js';
import { useChange, useConsole } from '../shell/console-context.js';
import { hrefOf } from '../shell/route.js';

const STATUSES = ['queued', 'running', 'waiting', 'ended'] as const;
const PAGE = 100;
const ROW_HEIGHT = 61;

interface RunsScreenProps {
  /**
   * The person whose runs an operator lists: an empty text for everyone of the tenant, undefined
   * for one's own.
   */
  readonly of: string | undefined;
}

/** Runs, the newest first: one's own, and for operators those of another person or of everyone. */
function RunsScreen({ of }: RunsScreenProps): ReactNode {
  const { client, words, session } = useConsole();
  const { t } = words;
  const [status, setStatus] = useState<Run['status']>();
  const selection: RunSelection = useMemo(
    () => ({
      limit: PAGE,
      ...(status && { status }),
      ...(of === '' ? { ofTenant: true } : of !== undefined && { actorId: of }),
    }),
    [status, of],
  );
  const first = useCallback(() => client.runs(selection), [client, selection]);
  const { value, error, reload } = useLoaded(first);
  useChange('runs', reload);
  return (
    <div className="page">
      <header className="bar-top">
        <h1>{t('nav.runs')}</h1>
        {session.may.includes('runs') && <Whose of={of} />}
        <div className="filters" role="group" aria-label={t('runs.filter')}>
          {[undefined, ...STATUSES].map((one) => (
            <button
              key={one ?? 'all'}
              type="button"
              className="filter"
              aria-pressed={status === one}
              onClick={() => setStatus(one)}
            >
              {t(one === undefined ? 'runs.all' : `status.${one}`)}
            </button>
          ))}
        </div>
      </header>
      {error && <Failed error={error} retry={reload} />}
      {!error && !value && <Loading rows={6} />}
      {value?.length === 0 && (
        <Notice icon="runs" title={t('runs.empty')}>
          {of === undefined && t('runs.emptyLead')}
        </Notice>
      )}
      {value && value.length > 0 && (
        <Runs key={JSON.stringify(selection)} first={value} selection={selection} />
      )}
    </div>
  );
}
export default RunsScreen; // oxlint-disable-line import/no-default-export -- React's lazy loads a default

/** Whose runs are listed. */
function Whose({ of }: RunsScreenProps): ReactNode {
  const { t } = useConsole().words;
  const people = of === undefined || of === '' ? [] : [of];
  return (
    <nav className="filters" aria-label={t('runs.whose')}>
      <a
        className="filter"
        href={hrefOf('runs')}
        aria-current={of === undefined ? 'true' : undefined}
      >
        {t('runs.mine')}
      </a>
      <a
        className="filter"
        href={hrefOf('runs', 'of')}
        aria-current={of === '' ? 'true' : undefined}
      >
        {t('runs.everyone')}
      </a>
      {people.map((person) => (
        <a key={person} className="filter" href={hrefOf('runs', 'of', person)} aria-current="true">
          {person}
        </a>
      ))}
    </nav>
  );
}

function Runs({
  first,
  selection,
}: {
  readonly first: readonly Run[];
  readonly selection: RunSelection;
}): ReactNode {
  const { client, words } = useConsole();
  const [later, setLater] = useState<readonly Run[]>([]);
  const known = new Set(first.map(({ runId }) => runId));
  const runs = [...first, ...later.filter(({ runId }) => !known.has(runId))];
  const [isComplete, setComplete] = useState(first.length < PAGE);
  const more = async (): Promise<void> => {
    const after = runs.at(-1)?.runId;
    const page = await client.runs({ ...selection, ...(after !== undefined && { after }) });
    setLater([...later, ...page]);
    setComplete(page.length < PAGE);
  };
  return (
    <>
      <VirtualList
        items={runs}
        rowHeight={ROW_HEIGHT}
        label={words.t('nav.runs')}
        keyOf={({ runId }) => runId}
      >
        {(run) => <RunRow run={run} />}
      </VirtualList>
      {!isComplete && (
        <button type="button" className="button" onClick={() => void more()}>
          {words.t('runs.more')}
        </button>
      )}
    </>
  );
}

const ICONS = { queued: 'wait', running: 'more', waiting: 'wait', ended: 'check' } as const;

function RunRow({ run }: { readonly run: Run }): ReactNode {
  const { words, session } = useConsole();
  const { runId, status, finishReason, waitingFor, createdAt, lastSequence, forkOf, actorId } = run;
  const isBad = status === 'ended' && finishReason !== 'stop';
  return (
    <a className={`row run-row ${status} ${isBad ? 'bad' : ''}`} href={hrefOf('runs', runId)}>
      <span className="row-kind">
        <Icon name={isBad ? 'alert' : ICONS[status]} size={17} />
      </span>
      <span className="row-words">
        <strong>
          {waitingFor && status === 'waiting'
            ? words.t(`waiting.${waitingFor}`)
            : finishReason
              ? words.t(`finish.${finishReason}`)
              : words.t(`status.${status}`)}
        </strong>
        <small className="muted">
          {actorId !== undefined && actorId !== session.actor.id ? `${actorId} · ` : ''}
          <span className="code">{runId.slice(0, 8)}</span>
          {forkOf ? ` · ${words.t('run.forkOf', { step: forkOf.step })}` : ''}
          {` · ${words.t('run.events', { n: lastSequence })}`}
        </small>
      </span>
      <time className="muted small" dateTime={createdAt} title={words.time(createdAt)}>
        {words.ago(createdAt)}
      </time>
    </a>
  );
}
