import { type ReactNode, useMemo } from 'react';
import type { LoopEvent } from '@toolloop/protocol';
import { nameOf } from '../parts/names.js';
import { useWords } from '../shell/console-context.js';

/** A stretch of a run in which one of its parts had the word. */
interface Span {
  readonly lane: 'model' | 'tool' | 'person';
  readonly name: string;
  readonly from: number;
  readonly to: number;
  readonly since: number;
  readonly isBad: boolean;
}

const LANES = ['model', 'tool', 'person'] as const;
const MOST_SPANS = 180;
const WIDTH = 1000;
const LANE_HEIGHT = 22;
const LEAST_WIDTH = 4;

/** The lanes of a run: what the model, the tools and people took their time for. A wait for people is hatched. */
export function Timeline({ events, position }: { readonly events: readonly LoopEvent[]; readonly position: number }): ReactNode {
  const words = useWords();
  const spans = useMemo(() => spansOf(events), [events]);
  const start = Date.parse(events[0]?.timestamp ?? '');
  const total = Math.max(1, Date.parse(events.at(-1)?.timestamp ?? '') - start);
  const x = (ms: number): number => ((ms - start) / total) * WIDTH;
  const now = x(Date.parse(events[position - 1]?.timestamp ?? ''));
  return (
    <div className="timeline">
      <svg className="unseen" aria-hidden="true">
        <pattern id="hatched" width="7" height="7" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">
          <line className="hatch" x1="0" x2="0" y1="0" y2="7" />
        </pattern>
      </svg>
      {LANES.map((lane) => {
        const own = stacked(spans.filter((span) => span.lane === lane));
        const height = Math.max(1, ...own.map(({ row }) => row + 1)) * LANE_HEIGHT;
        return (
          <section key={lane} className="lane" aria-label={words.t(`lane.${lane}`)}>
            <h2>{words.t(`lane.${lane}`)}</h2>
            <svg
              viewBox={`0 0 ${WIDTH} ${height}`}
              preserveAspectRatio="none"
              height={height}
              role="img"
              aria-label={words.t('lane.spans', { n: own.length })}
            >
              {own.map(({ span, row }) => (
                <rect
                  key={`${span.since} ${span.name}`}
                  className={`span ${lane} ${span.isBad ? 'bad' : ''} ${span.from > start + (now / WIDTH) * total ? 'future' : ''}`}
                  x={x(span.from)}
                  y={row * LANE_HEIGHT + 3}
                  width={Math.max(LEAST_WIDTH, x(span.to) - x(span.from))}
                  height={LANE_HEIGHT - 6}
                  rx={3}
                >
                  <title>{`${span.name}: ${words.duration(span.to - span.from)}`}</title>
                </rect>
              ))}
              <line className="now" x1={now} x2={now} y1={0} y2={height} />
            </svg>
            <ol className="lane-list">
              {own.map(({ span }) => (
                <li key={`${span.since} ${span.name}`} className={span.isBad ? 'bad' : undefined}>
                  <span>{span.name}</span> <span className="muted">{words.duration(span.to - span.from)}</span>
                </li>
              ))}
            </ol>
          </section>
        );
      })}
    </div>
  );
}

function spansOf(events: readonly LoopEvent[]): readonly Span[] {
  const begun = new Map<string, LoopEvent>();
  const spans = events.flatMap((event) => spanOf(event, begun));
  return spans.slice(-MOST_SPANS);
}

/** Remembers what an event begins, and returns the span that it ends. */
function spanOf(event: LoopEvent, begun: Map<string, LoopEvent>): readonly Span[] {
  switch (event.type) {
    case 'step-start':
      begun.set('model', event);
      return [];
    case 'usage':
      return ended(begun, 'model', event, { lane: 'model', name: `${event.step}`, isBad: false });
    case 'tool-result': {
      const { id, status, startedAt, endedAt } = event.record;
      const name = nameOf(id);
      if (status === 'waiting') return [];
      const [from, to] = [Date.parse(String(startedAt)), Date.parse(String(endedAt))];
      return [{ lane: 'tool', name, from, to, since: event.sequence, isBad: status !== 'succeeded' }];
    }
    case 'approval-request':
      begun.set(event.approval.approvalId, event);
      return [];
    case 'approval-decision': {
      const { approvalId, decision } = event.decision;
      return ended(begun, approvalId, event, { lane: 'person', name: event.decidedBy, isBad: decision !== 'approve' });
    }
    case 'pending-request':
      begun.set(
        event.kind === 'question'
          ? event.request.questionId
          : event.kind === 'client'
            ? event.request.pendingId
            : event.request.rehearsalId,
        event,
      );
      return [];
    case 'pending-answer':
      return ended(begun, event.pendingId, event, { lane: 'person', name: event.answeredBy, isBad: event.decision === 'deny' });
    default:
      return [];
  }
}

function ended(begun: Map<string, LoopEvent>, key: string, event: LoopEvent, span: Pick<Span, 'lane' | 'name' | 'isBad'>): readonly Span[] {
  const start = begun.get(key);
  begun.delete(key);
  return start ? [{ ...span, from: Date.parse(start.timestamp), to: Date.parse(event.timestamp), since: start.sequence }] : [];
}

/** Puts spans that overlap on rows of their own. */
function stacked(spans: readonly Span[]): readonly { readonly span: Span; readonly row: number }[] {
  const ends: number[] = [];
  return spans
    .toSorted((a, b) => a.from - b.from)
    .map((span) => {
      const free = ends.findIndex((end) => end <= span.from);
      const row = free < 0 ? ends.length : free;
      ends[row] = span.to;
      return { span, row };
    });
}
