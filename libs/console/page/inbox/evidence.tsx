import type { ReactNode } from 'react';
import { type CallPart, useRun } from '@toolloop/react';
import type { WaitingRequest } from '@toolloop/client';
import { type ApprovalRequest, visible } from '@toolloop/protocol';
import { Icon } from '../parts/icon.js';
import { nameOf, summaryOf, textOf } from '../parts/names.js';
import { useConsole } from '../shell/console-context.js';
import { hrefOf } from '../shell/route.js';
import type { Session } from '../shell/session.js';
import { callsIn, pathOf } from '../runs/value-path.js';

interface EvidenceProps {
  readonly entry: WaitingRequest;
  readonly request: ApprovalRequest;
}

/**
 * What the run had read before it asked, and which of its results holds each argument of the call.
 */
export function Evidence({ entry, request }: EvidenceProps): ReactNode {
  const { words, session } = useConsole();
  const { t } = words;
  const mayRead = mayReadRun(entry, session);
  return (
    <section className="evidence" aria-label={t('evidence.title')}>
      <h3>{t('evidence.title')}</h3>
      {mayRead && session.durable && <ReadBefore key={request.approvalId} request={request} />}
      {mayRead && !session.durable && <p className="muted small">{t('evidence.notKept')}</p>}
      {!mayRead && (
        <p className="muted small">
          <Icon name="lock" size={14} /> {t('evidence.locked')}
        </p>
      )}
    </section>
  );
}

/**
 * Tells whether the person may see the run of a request: it is theirs, or they are an operator who
 * may.
 */
export function mayReadRun({ requestedBy }: WaitingRequest, { actor, may }: Session): boolean {
  return requestedBy === actor.id || may.includes('runs');
}

function ReadBefore({
  request: { runId, toolCallId, args },
}: {
  readonly request: ApprovalRequest;
}): ReactNode {
  const { client, feed, words } = useConsole();
  const { t } = words;
  const { view, error, reading } = useRun(client, runId, { notices: feed.watch });
  if (error) return <p className="muted small">{error.message}</p>;
  if (reading === 'loading') return null;
  const calls = callsIn(view);
  const own = calls.findIndex((call) => call.toolCallId === toolCallId);
  const before = calls
    .slice(0, own < 0 ? calls.length : own)
    .filter(({ record }) => record?.status === 'succeeded');
  const values = Object.entries(args).flatMap(([name, value]) =>
    typeof value === 'string' || typeof value === 'number' ? [[name, textOf(value)] as const] : [],
  );
  const origins = values.map(([name, value]) => ({
    name,
    value,
    read: pathOf(value, view).read.map(({ call }) => call),
  }));
  return (
    <>
      <p className="muted small">{t(before.length > 0 ? 'evidence.lead' : 'evidence.none')}</p>
      <ul>
        {before.map((call) => (
          <ReadCall
            key={call.since}
            call={call}
            names={origins.filter(({ read }) => read.includes(call)).map(({ name }) => name)}
          />
        ))}
      </ul>
      {origins.length > 0 && (
        <dl className="facts">
          {origins.map(({ name, value, read }) => (
            <div key={name}>
              <dt>{nameOf(name)}</dt>
              <dd>
                <a className="value" href={hrefOf('runs', runId, 'path', value)}>
                  {visible(value)}
                </a>
                {read.length === 0 && (
                  <span className="muted small"> · {t('evidence.origin')}</span>
                )}
              </dd>
            </div>
          ))}
        </dl>
      )}
    </>
  );
}

function ReadCall({
  call,
  names,
}: {
  readonly call: CallPart;
  readonly names: readonly string[];
}): ReactNode {
  const { t } = useConsole().words;
  return (
    <li className="place">
      <Icon name={call.isOfOthers ? 'alert' : 'check'} size={15} />
      <span>
        <strong>{nameOf(call.tool, call.presentation)}</strong>{' '}
        <span className="muted small">{summaryOf(call.args)}</span>
        {names.length > 0 && (
          <>
            <br />
            <span className="small">
              {t('evidence.from', { name: names.map((name) => nameOf(name)).join(', ') })}
            </span>
          </>
        )}
      </span>
      {call.isOfOthers && <span className="chip caution">{t('call.ofOthers')}</span>}
    </li>
  );
}
