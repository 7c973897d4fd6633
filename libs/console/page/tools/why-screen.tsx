import { type SubmitEvent, type ReactNode, useCallback } from 'react';
import type { ExplainedCall, ExplainedTool } from '@toolloop/client';
import { Icon } from '../parts/icon.js';
import { useLoaded } from '../parts/loaded.js';
import { Failed, Loading, Locked, Notice } from '../parts/states.js';
import { useConsole } from '../shell/console-context.js';
import { go } from '../shell/route.js';

interface WhyScreenProps {
  readonly tool: string | undefined;
  /** A run and a call of it, or an actor behind `as`. */
  readonly call: readonly string[];
}

/** The reasons why an actor is offered a tool or not, or the outcome of one call. */
function WhyScreen({ tool, call }: WhyScreenProps): ReactNode {
  const { words, session } = useConsole();
  const { t } = words;
  const isLocked = !session.may.includes('explain');
  return (
    <div className="page why">
      <header className="bar-top">
        <h1>{t('nav.why')}</h1>
      </header>
      {isLocked && <Locked permission="explain" />}
      {!isLocked && <Ask tool={tool} call={call} />}
      {!isLocked && tool !== undefined && <Answer tool={tool} call={call} />}
      {!isLocked && tool === undefined && (
        <Notice icon="why" title={t('why.title')}>
          {t('why.lead')}
        </Notice>
      )}
    </div>
  );
}
export default WhyScreen; // oxlint-disable-line import/no-default-export -- React's lazy loads a default

const AS = 'as';

function Ask({ tool, call: [kind, actorId] }: WhyScreenProps): ReactNode {
  const { words } = useConsole();
  const ask = (event: SubmitEvent<HTMLFormElement>): void => {
    event.preventDefault();
    const typed = new FormData(event.currentTarget);
    const [id, actor] = [typed.get('tool'), typed.get('actor')];
    if (typeof id !== 'string' || id.trim() === '') return;
    go(
      'why',
      id.trim(),
      ...(typeof actor === 'string' && actor.trim() !== '' ? [AS, actor.trim()] : []),
    );
  };
  return (
    <form className="why-ask" onSubmit={ask}>
      <label className="field">
        <span>{words.t('call.tool')}</span>
        <input name="tool" required defaultValue={tool} className="code" />
      </label>
      <label className="field">
        <span>{words.t('why.actor')}</span>
        <input name="actor" defaultValue={kind === AS ? actorId : ''} />
      </label>
      <button type="submit" className="button primary">
        {words.t('why.ask')}
      </button>
    </form>
  );
}

function Answer({
  tool,
  call,
}: {
  readonly tool: string;
  readonly call: readonly string[];
}): ReactNode {
  const { client } = useConsole();
  const key = call.join('/');
  const ask = useCallback(() => {
    const [first, second] = key.split('/');
    const isTold = first !== undefined && first !== '' && second !== undefined;
    return client.request('GET /explain/:tool', {
      tool,
      ...(isTold && (first === AS ? { actorId: second } : { runId: first, toolCallId: second })),
    });
  }, [client, tool, key]);
  const { value, error, reload } = useLoaded(ask);
  if (error) return <Failed error={error} retry={reload} />;
  if (!value) return <Loading />;
  return 'reasons' in value ? <ToolReasons tool={value} /> : <CallHistory call={value} />;
}

function ToolReasons({
  tool: { declaredId, isListed, isCallable, reasons },
}: {
  readonly tool: ExplainedTool;
}): ReactNode {
  const { words } = useConsole();
  const { t } = words;
  const verdict =
    isCallable === 'asks' ? 'asks' : isCallable ? 'callable' : isListed ? 'listed' : 'hidden';
  return (
    <section className={`verdict ${verdict}`} aria-label={declaredId}>
      <h2>
        <span className="code">{declaredId}</span> {t(`why.${verdict}`)}
      </h2>
      <ol className="reasons">
        {reasons.map(({ by, holds, reason, decision }, index) => (
          <li key={index} className={holds ? 'holds' : 'fails'}>
            <Icon name={holds ? 'check' : 'cross'} size={16} />
            <div>
              <strong>{by}</strong>
              <p>{reason}</p>
              {decision && (
                <p className="muted small">
                  <span className="code">{decision.rule}</span> · {decision.policyVersion} ·{' '}
                  {t(`decision.${decision.kind}`)}
                </p>
              )}
            </div>
          </li>
        ))}
      </ol>
    </section>
  );
}

function CallHistory({
  call: { toolCallId, declaredId, events },
}: {
  readonly call: ExplainedCall;
}): ReactNode {
  const { words } = useConsole();
  return (
    <section className="verdict" aria-label={toolCallId}>
      <h2>
        <span className="code">{declaredId ?? toolCallId}</span>
      </h2>
      <ol className="reasons">
        {events.map(({ at, kind, decision, reason, decidedBy, status, code }, index) => (
          <li
            key={index}
            className={decision?.kind === 'deny' || code !== undefined ? 'fails' : 'holds'}
          >
            <Icon name="audit" size={16} />
            <div>
              <strong>{[kind, status, code].filter(Boolean).join(' · ')}</strong>
              <p>{decision?.reason ?? reason ?? ''}</p>
              <p className="muted small">
                {words.clock(at)}
                {decision ? ` · ${decision.rule} · ${decision.policyVersion}` : ''}
                {decidedBy === undefined ? '' : ` · ${decidedBy}`}
              </p>
            </div>
          </li>
        ))}
      </ol>
      {events.length === 0 && <p className="muted">{words.t('why.nothing')}</p>}
    </section>
  );
}
