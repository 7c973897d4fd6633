import { type ReactNode, useMemo, useState } from 'react';
import type { LoopEvent } from '@toolloop/protocol';
import { VirtualList } from '../parts/virtual-list.js';
import { useWords } from '../shell/console-context.js';

interface EventListProps {
  readonly events: readonly LoopEvent[];
  readonly position: number;
  readonly onMove: (position: number) => void;
}

const ROW_HEIGHT = 36;

/** The log as it is: filtered by a word, each event on request with all that it says. */
export function EventList({ events, position, onMove }: EventListProps): ReactNode {
  const { t } = useWords();
  const [filter, setFilter] = useState('');
  const shown = useMemo(() => {
    const wanted = filter.trim().toLowerCase();
    return wanted === ''
      ? events
      : events.filter((event) => JSON.stringify(event).toLowerCase().includes(wanted));
  }, [events, filter]);
  return (
    <div className="events">
      <label className="field inline">
        <span>{t('events.filter')}</span>
        <input value={filter} onChange={({ target }) => setFilter(target.value)} />
      </label>
      <p className="muted small" role="status">
        {t('run.events', { n: shown.length })}
      </p>
      <VirtualList
        items={shown}
        rowHeight={ROW_HEIGHT}
        label={t('run.events', { n: shown.length })}
        keyOf={({ sequence }) => sequence}
      >
        {(event) => <EventRow event={event} isPast={event.sequence <= position} onMove={onMove} />}
      </VirtualList>
    </div>
  );
}

function EventRow({
  event,
  isPast,
  onMove,
}: {
  readonly event: LoopEvent;
  readonly isPast: boolean;
  readonly onMove: (position: number) => void;
}): ReactNode {
  const words = useWords();
  const { sequence, type, timestamp, runId: _runId, ...rest } = event;
  return (
    <details
      className={`event ${isPast ? '' : 'future'}`}
      onToggle={({ currentTarget }) => (currentTarget.open ? onMove(sequence) : undefined)}
    >
      <summary>
        <span className="event-number">{words.number(sequence)}</span>
        <span className={`event-type ${type}`}>{type}</span>
        <span className="event-line muted">{lineOf(rest)}</span>
        <time className="muted small">{words.clock(timestamp)}</time>
      </summary>
      <pre className="json">{JSON.stringify(event, null, 2)}</pre>
    </details>
  );
}

function lineOf(rest: object): string {
  const entries = Object.entries(rest).filter(
    ([name, value]) => name !== 'step' && typeof value !== 'object',
  );
  return entries.map(([name, value]) => `${name}: ${String(value)}`).join(' · ');
}
