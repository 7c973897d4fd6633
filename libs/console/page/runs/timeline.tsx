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

/** A span with the row of its lane in which it has room. */
interface StackedSpan {
  readonly span: Span;
  readonly row: number;
}

const LANES = ['model', 'tool', 'person'] as const;
const MOST_SPANS = 180;
const WIDTH = 1000;
const LANE_HEIGHT = 22;
const LEAST_WIDTH = 4;

/**
 * The lanes of a run: what the model, the tools and people took their time for. A wait for people
 * is hatched.
 */
export function Timeline({
  events,
  position,
}: {
  readonly events: readonly LoopEvent[];
  readonly position: number;
}): ReactNode {
  const spans = useMemo(() => spansOf(events), [events]);
  const scale = scaleTime(events, position);
  return (
    <div className="timeline">
      <svg className="unseen" aria-hidden="true">
        <pattern
          id="hatched"
          width="7"
          height="7"
          patternUnits="userSpaceOnUse"
          patternTransform="rotate(45)"
        >
          <line className="hatch" x1="0" x2="0" y1="0" y2="7" />
        </pattern>
      </svg>
      {LANES.map((lane) => (
        <Lane
          key={lane}
          lane={lane}
          spans={stacked(spans.filter((span) => span.lane === lane))}
          scale={scale}
        />
      ))}
    </div>
  );
}

/** The time of a run across the width of its lanes. */
interface TimeScale {
  /** The place of a moment. */
  readonly x: (ms: number) => number;
  /** The moment of the event at which the run is shown. */
  readonly now: number;
}

function scaleTime(events: readonly LoopEvent[], position: number): TimeScale {
  const start = Date.parse(events[0]?.timestamp ?? '');
  const total = Math.max(1, Date.parse(events.at(-1)?.timestamp ?? '') - start);
  return {
    x: (ms) => ((ms - start) / total) * WIDTH,
    now: Date.parse(events[position - 1]?.timestamp ?? ''),
  };
}

interface LaneProps {
  readonly lane: Span['lane'];
  readonly spans: readonly StackedSpan[];
  readonly scale: TimeScale;
}

/** The spans of one part of the run as a picture, and as a list for those who read it. */
function Lane({ lane, spans, scale }: LaneProps): ReactNode {
  const words = useWords();
  return (
    <section className="lane" aria-label={words.t(`lane.${lane}`)}>
      <h2>{words.t(`lane.${lane}`)}</h2>
      <LanePicture spans={spans} scale={scale} />
      <ol className="lane-list">
        {spans.map(({ span }) => (
          <li key={`${span.since} ${span.name}`} className={span.isBad ? 'bad' : undefined}>
            <span>{span.name}</span>{' '}
            <span className="muted">{words.duration(span.to - span.from)}</span>
          </li>
        ))}
      </ol>
    </section>
  );
}

function LanePicture({ spans, scale }: Omit<LaneProps, 'lane'>): ReactNode {
  const { t } = useWords();
  const height = Math.max(1, ...spans.map(({ row }) => row + 1)) * LANE_HEIGHT;
  const now = scale.x(scale.now);
  return (
    <svg
      viewBox={`0 0 ${WIDTH} ${height}`}
      preserveAspectRatio="none"
      height={height}
      role="img"
      aria-label={t('lane.spans', { n: spans.length })}
    >
      {spans.map(({ span, row }) => (
        <SpanBar key={`${span.since} ${span.name}`} span={span} row={row} scale={scale} />
      ))}
      <line className="now" x1={now} x2={now} y1={0} y2={height} />
    </svg>
  );
}

function SpanBar({
  span,
  row,
  scale: { x, now },
}: StackedSpan & Pick<LaneProps, 'scale'>): ReactNode {
  const words = useWords();
  const { lane, name, from, to, isBad } = span;
  return (
    <rect
      className={`span ${lane} ${isBad ? 'bad' : ''} ${from > now ? 'future' : ''}`}
      x={x(from)}
      y={row * LANE_HEIGHT + 3}
      width={Math.max(LEAST_WIDTH, x(to) - x(from))}
      height={LANE_HEIGHT - 6}
      rx={3}
    >
      <title>{`${name}: ${words.duration(to - from)}`}</title>
    </rect>
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
      return [
        { lane: 'tool', name, from, to, since: event.sequence, isBad: status !== 'succeeded' },
      ];
    }
    case 'approval-request':
      begun.set(event.approval.approvalId, event);
      return [];
    case 'approval-decision': {
      const { approvalId, decision } = event.decision;
      return ended(begun, approvalId, event, {
        lane: 'person',
        name: event.decidedBy,
        isBad: decision !== 'approve',
      });
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
      return ended(begun, event.pendingId, event, {
        lane: 'person',
        name: event.answeredBy,
        isBad: event.decision === 'deny',
      });
    default:
      return [];
  }
}

function ended(
  begun: Map<string, LoopEvent>,
  key: string,
  event: LoopEvent,
  span: Pick<Span, 'lane' | 'name' | 'isBad'>,
): readonly Span[] {
  const start = begun.get(key);
  begun.delete(key);
  return start
    ? [
        {
          ...span,
          from: Date.parse(start.timestamp),
          to: Date.parse(event.timestamp),
          since: start.sequence,
        },
      ]
    : [];
}

/** Puts spans that overlap on rows of their own. */
function stacked(spans: readonly Span[]): readonly StackedSpan[] {
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
