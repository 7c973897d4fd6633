import { type ReactNode, useState } from 'react';
import type { ReplayedPolicies, ToolLoopClient } from '@toolloop/client';
import { DecisionChip } from '../parts/decision-chip.js';
import { Icon } from '../parts/icon.js';
import { nameOf } from '../parts/names.js';
import { Failed, Locked } from '../parts/states.js';
import { VirtualList } from '../parts/virtual-list.js';
import { useConsole } from '../shell/console-context.js';
import { hrefOf } from '../shell/route.js';

const DECISIONS = 1_000;
/** The most runs that are looked at for them: one without calls has no decision. */
const MOST_RUNS = 2_000;
const PAGE = 100;
const ROW_HEIGHT = 74;

/** A version, or policies that were never put. */
type By = number | object;
type ReplayedRun = ReplayedPolicies['runs'][number];

/** A decision that would turn out otherwise, with its run. */
interface Changed extends Pick<ReplayedRun, 'runId'> {
  readonly flip: ReplayedRun['changed'][number];
}

/** The decisions that were made again by now. */
interface Replayed {
  readonly runs: number;
  readonly decided: number;
  readonly skipped: number;
  readonly changed: readonly Changed[];
  readonly isOver: boolean;
}

const NOTHING: Replayed = { runs: 0, decided: 0, skipped: 0, changed: [], isOver: false };

/**
 * Decides again about the last calls of the tenant by other policies, and lists those that would
 * turn out otherwise. Nothing is called, and nothing changes.
 */
export function PolicyReplay({ by }: { readonly by: By }): ReactNode {
  const { client, words, session, announce } = useConsole();
  const { t } = words;
  const [replayed, setReplayed] = useState<Replayed>();
  const [error, setError] = useState<Error>();
  const isBusy = replayed !== undefined && !replayed.isOver && error === undefined;
  const start = (): void => {
    setError(undefined);
    setReplayed(NOTHING);
    replay(client, by, setReplayed).then(
      ({ decided, changed }) => announce(t('replay.done', { n: decided, changed: changed.length })),
      (thrown: unknown) => setError(thrown instanceof Error ? thrown : new Error(String(thrown))),
    );
  };
  if (!session.may.includes('replay') || !session.may.includes('runs'))
    return <Locked permission={session.may.includes('replay') ? 'runs' : 'replay'} />;
  return (
    <section className="replay" aria-label={t('replay.title')}>
      <div className="heading">
        <h3>{t('replay.title')}</h3>
        <button type="button" className="button" disabled={isBusy} onClick={start}>
          <Icon name="play" size={16} /> {t('replay.start')}
        </button>
      </div>
      <p className="muted small">{t('replay.lead')}</p>
      {error && <Failed error={error} />}
      {isBusy && (
        <progress max={DECISIONS} value={replayed.decided} aria-label={t('replay.title')} />
      )}
      {replayed && !error && <Outcome replayed={replayed} />}
    </section>
  );
}

async function replay(
  client: ToolLoopClient,
  by: By,
  show: (replayed: Replayed) => void,
): Promise<Replayed> {
  let replayed = NOTHING;
  for (let after: string | undefined; !replayed.isOver;) {
    const runs = await client.runs({
      ofTenant: true,
      limit: PAGE,
      ...(after !== undefined && { after }),
    });
    after = runs.at(-1)?.runId;
    if (runs.length > 0)
      replayed = withRuns(
        replayed,
        (
          await client.request('POST /policies/replay', {
            ...(typeof by === 'number' ? { version: by } : { policy: by }),
            runs: runs.map(({ runId }) => runId),
          })
        ).runs,
      );
    const isOver =
      runs.length < PAGE || replayed.decided >= DECISIONS || replayed.runs >= MOST_RUNS;
    replayed = { ...replayed, isOver };
    show(replayed);
  }
  return replayed;
}

/** Adds runs, the newest first, until there are as many decisions as are wanted. */
function withRuns(before: Replayed, runs: readonly ReplayedRun[]): Replayed {
  const taken = firstRuns(runs, DECISIONS - before.decided);
  return {
    runs: before.runs + taken.length,
    decided: taken.reduce((sum, run) => sum + run.decided, before.decided),
    skipped: taken.reduce((sum, { skipped }) => sum + skipped.length, before.skipped),
    changed: [
      ...before.changed,
      ...taken.flatMap(({ runId, changed }) => changed.map((flip) => ({ runId, flip }))),
    ],
    isOver: false,
  };
}

function firstRuns(runs: readonly ReplayedRun[], decisions: number): readonly ReplayedRun[] {
  const first: ReplayedRun[] = [];
  let decided = 0;
  for (const run of runs) {
    if (decided >= decisions) break;
    first.push(run);
    decided += run.decided;
  }
  return first;
}

function Outcome({
  replayed: { runs, decided, skipped, changed, isOver },
}: {
  readonly replayed: Replayed;
}): ReactNode {
  const { t } = useConsole().words;
  return (
    <>
      <p role="status">
        <strong>{t('replay.changed', { n: changed.length })}</strong>{' '}
        <span className="muted">
          {t('replay.decided', { n: decided, runs })}
          {skipped > 0 ? ` ${t('replay.skipped', { n: skipped })}` : ''}
        </span>
      </p>
      {isOver && changed.length > 0 && (
        <div className="flips">
          <VirtualList
            items={changed}
            rowHeight={ROW_HEIGHT}
            label={t('replay.flips')}
            keyOf={({ runId, flip }) => `${runId} ${flip.toolCallId}`}
          >
            {(one) => <Flip changed={one} />}
          </VirtualList>
        </div>
      )}
    </>
  );
}

function Flip({ changed: { runId, flip } }: { readonly changed: Changed }): ReactNode {
  const { declaredId, before, after } = flip;
  return (
    <a className="flip" href={hrefOf('runs', runId)}>
      <strong>{nameOf(declaredId)}</strong> <span className="code muted">{declaredId}</span>
      <span className="flip-way">
        <DecisionChip decision={before} /> <Icon name="open" size={14} />{' '}
        <DecisionChip decision={after} />
      </span>
    </a>
  );
}
