import { type ReactNode, useCallback, useEffect, useMemo, useState } from 'react';
import { EMPTY_RUN, type RunState, type RunView, useRun, withEvent } from '@toolloop/react';
import { RunOutcome, RunParts } from '../chat/chat-screen.js';
import { Belt } from '../parts/belt.js';
import { usageText } from '../parts/call-card.js';
import { Icon } from '../parts/icon.js';
import { ValueAddress } from '../parts/result-view.js';
import { Failed, Loading } from '../parts/states.js';
import { VerdictControl, WithVerdicts } from '../parts/verdict.js';
import { useConsole } from '../shell/console-context.js';
import { isWriting } from '../shell/frame.js';
import { hrefOf } from '../shell/route.js';
import { EventList } from './event-list.js';
import { RunActions } from './run-actions.js';
import { Timeline } from './timeline.js';
import { ValuePathView } from './value-path-view.js';

const READINGS = ['story', 'timeline', 'events', 'path'] as const;
type Reading = (typeof READINGS)[number];

interface RunScreenProps {
  readonly runId: string;
  readonly path: readonly string[];
}

/**
 * One run in three readings of one log. The scrubber moves all of them through time, and the belt
 * with them.
 */
function RunScreen({ runId, path: [asked, value] }: RunScreenProps): ReactNode {
  const { client, words, feed } = useConsole();
  const { t } = words;
  const state = useRun(client, runId, { notices: feed.watch });
  const { events, error, reading: progress } = state;
  const reading: Reading = READINGS.find((one) => one === asked) ?? 'story';
  const { position, last, shown, move } = useScrubbedRun(state);
  return (
    <WithVerdicts runId={runId}>
      <div className="run with-belt">
        <section className="thread" aria-label={t('run.title')}>
          <RunHeader runId={runId} state={state} />
          <ReadingTabs runId={runId} reading={reading} />
          {error && <Failed error={error} />}
          {progress === 'loading' && !error && <Loading rows={4} />}
          <div className="reading">
            {reading === 'story' && <Story runId={runId} run={shown} isLive={position >= last} />}
            {reading === 'timeline' && <Timeline events={events} position={position} />}
            {reading === 'path' && <ValuePathView run={shown} runId={runId} value={value} />}
            {reading === 'events' && (
              <EventList events={events} position={position} onMove={move} />
            )}
          </div>
          {last > 0 && (
            <Scrubber
              {...{
                position,
                last,
                at: events[position - 1]?.timestamp,
                isLive: progress === 'live',
              }}
              onMove={move}
            />
          )}
        </section>
        <Belt tools={shown.tools} isOpen={globalThis.innerWidth > 1020} />
      </div>
    </WithVerdicts>
  );
}
export default RunScreen; // oxlint-disable-line import/no-default-export -- React's lazy loads a default

/** A run as it was at one of its events. */
interface ScrubbedRun {
  /** The number of its events that have happened by then. */
  readonly position: number;
  readonly last: number;
  readonly shown: RunView;
  /** Undefined follows the run to its newest event. */
  readonly move: (position: number | undefined) => void;
}

function useScrubbedRun({ events, view }: Pick<RunState, 'events' | 'view'>): ScrubbedRun {
  const [at, move] = useState<number>();
  const last = events.length;
  const position = Math.min(at ?? last, last);
  const shown = useMemo(
    () => (position >= last ? view : events.slice(0, position).reduce(withEvent, EMPTY_RUN)),
    [events, position, last, view],
  );
  useScrubKeys(position, last, move);
  return { position, last, shown, move };
}

function ReadingTabs({
  runId,
  reading,
}: {
  readonly runId: string;
  readonly reading: Reading;
}): ReactNode {
  const { t } = useConsole().words;
  return (
    <nav className="tabs" aria-label={t('run.readings')}>
      {READINGS.map((one) => (
        <a
          key={one}
          href={hrefOf('runs', runId, one)}
          aria-current={one === reading ? 'page' : undefined}
        >
          {t(one === 'events' ? 'run.log' : one === 'path' ? 'path.title' : `run.${one}`)}
        </a>
      ))}
    </nav>
  );
}

interface StoryProps {
  readonly runId: string;
  readonly run: RunView;
  readonly isLive: boolean;
}

/** The run as a conversation, whose values lead to their path. */
function Story({ runId, run, isLive }: StoryProps): ReactNode {
  const addressOf = useCallback((value: string) => hrefOf('runs', runId, 'path', value), [runId]);
  return (
    <ValueAddress value={addressOf}>
      <div className="answer">
        <RunParts run={run} isLive={isLive} />
        <RunOutcome run={run} />
      </div>
    </ValueAddress>
  );
}

function RunHeader({
  runId,
  state: { run, view, reading, events },
}: {
  readonly runId: string;
  readonly state: RunState;
}): ReactNode {
  const [first] = events;
  const conversationId = first?.type === 'run-start' ? first.conversationId : undefined;
  const { words } = useConsole();
  const { t } = words;
  const { usage, step, model, startedAt, lastAt } = view;
  return (
    <header className="bar-top run-head">
      <div>
        <h1>
          {t('run.title')} <span className="code">{runId.slice(0, 8)}</span>
        </h1>
        <ul className="chips">
          {run && <li className={`chip status-${run.status}`}>{t(`status.${run.status}`)}</li>}
          {reading === 'live' && run?.status !== 'ended' && (
            <li className="chip live">{t('run.live')}</li>
          )}
          {view.isRehearsal && <li className="chip caution">{t('chat.rehearse')}</li>}
          {model !== undefined && <li className="chip">{model}</li>}
          <li className="chip">{t('run.steps', { n: step })}</li>
          {usage && <li className="chip">{usageText(usage, words)}</li>}
          {startedAt !== undefined && lastAt !== undefined && (
            <li className="chip">{words.duration(Date.parse(lastAt) - Date.parse(startedAt))}</li>
          )}
          {run?.forkOf && (
            <li className="chip">
              <a href={hrefOf('runs', run.forkOf.runId)}>
                {t('run.forkOf', { step: run.forkOf.step })}
              </a>
            </li>
          )}
        </ul>
        {view.status === 'ended' && <VerdictControl />}
      </div>
      {run && <RunActions run={run} view={view} conversationId={conversationId} />}
    </header>
  );
}

interface ScrubberProps {
  readonly position: number;
  readonly last: number;
  readonly at: string | undefined;
  readonly isLive: boolean;
  readonly onMove: (position: number | undefined) => void;
}

function Scrubber({ position, last, at, isLive, onMove }: ScrubberProps): ReactNode {
  const { words } = useConsole();
  const isBack = position < last;
  return (
    <div className="scrubber">
      <label>
        <span className="unseen">{words.t('run.scrubber')}</span>
        <input
          type="range"
          min={1}
          max={last}
          value={position}
          aria-valuetext={words.t('run.at', { n: position, of: last })}
          onChange={({ target }) =>
            onMove(Number(target.value) >= last ? undefined : Number(target.value))
          }
        />
      </label>
      <span className="scrubber-words muted small">
        {words.t('run.at', { n: position, of: last })}
        {at === undefined ? '' : ` · ${words.clock(at)}`}
      </span>
      <button type="button" className="ghost" disabled={!isBack} onClick={() => onMove(undefined)}>
        <Icon name="play" size={14} /> {words.t(isLive ? 'run.follow' : 'run.toEnd')}
      </button>
    </div>
  );
}

/** The arrow keys move through time wherever the focus is on no field. */
function useScrubKeys(
  position: number,
  last: number,
  move: (position: number | undefined) => void,
): void {
  useEffect(() => {
    const press = (event: KeyboardEvent): void => {
      const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (step === undefined || isWriting(event)) return;
      event.preventDefault();
      const forward = document.documentElement.dir === 'rtl' ? -1 : 1;
      const next = Math.max(1, position + step * forward);
      move(next >= last ? undefined : next);
    };
    addEventListener('keydown', press);
    return () => removeEventListener('keydown', press);
  }, [position, last, move]);
}
