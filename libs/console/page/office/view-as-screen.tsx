import { type ReactNode, type SubmitEvent, useCallback, useId } from 'react';
import type { ViewedActor, ViewedTool } from '@toolloop/client';
import { Icon } from '../parts/icon.js';
import { useLoaded } from '../parts/loaded.js';
import { grouped, nameOf, spaceOf } from '../parts/names.js';
import { sentenceOf } from '../parts/request-words.js';
import { Failed, Loading, Locked, Notice } from '../parts/states.js';
import { useConsole } from '../shell/console-context.js';
import { go, hrefOf } from '../shell/route.js';

/**
 * The application as another person sees it: lists and reasons, with a lock and its rule where
 * something is withheld, and nothing to act on.
 */
function ViewAsScreen({ actorId }: { readonly actorId: string | undefined }): ReactNode {
  const { words, session } = useConsole();
  const { t } = words;
  const isLocked = !session.may.includes('viewAs');
  return (
    <div className="page view-as">
      <header className="bar-top">
        <h1>{t('nav.as')}</h1>
      </header>
      {isLocked ? <Locked permission="viewAs" /> : <Choose actorId={actorId} />}
      {!isLocked && actorId !== undefined && <View key={actorId} actorId={actorId} />}
      {!isLocked && actorId === undefined && (
        <Notice icon="eye" title={t('as.title')}>
          {t('as.lead')}
        </Notice>
      )}
    </div>
  );
}
export default ViewAsScreen; // oxlint-disable-line import/no-default-export -- React's lazy loads a default

function Choose({ actorId }: { readonly actorId: string | undefined }): ReactNode {
  const { t } = useConsole().words;
  const list = useId();
  const people = usePeople();
  return (
    <form className="why-ask as-ask" onSubmit={look}>
      <label className="field">
        <span>{t('as.who')}</span>
        <input
          key={actorId}
          name="actor"
          required
          defaultValue={actorId}
          list={list}
          autoComplete="off"
          maxLength={256}
        />
        <datalist id={list}>
          {people.map((person) => (
            <option key={person} value={person} />
          ))}
        </datalist>
      </label>
      <button type="submit" className="button primary">
        <Icon name="eye" size={16} /> {t('as.look')}
      </button>
    </form>
  );
}

function look(event: SubmitEvent<HTMLFormElement>): void {
  event.preventDefault();
  const typed = new FormData(event.currentTarget).get('actor');
  if (typeof typed === 'string' && typed.trim() !== '') go('as', typed.trim());
}

/** The people who have used something lately, as far as one may know. */
export function usePeople(): readonly string[] {
  const { client, session } = useConsole();
  const mayKnow = session.may.includes('usage');
  const load = useCallback(
    async () => (mayKnow ? client.usage({ groupBy: ['actor'] }) : []),
    [client, mayKnow],
  );
  return useLoaded(load).value?.flatMap(({ actor }) => actor ?? []) ?? [];
}

function View({ actorId }: { readonly actorId: string }): ReactNode {
  const { client, words, session } = useConsole();
  const { t } = words;
  const load = useCallback(
    () => client.request('GET /view-as/:actorId', { actorId }),
    [client, actorId],
  );
  const { value, error, reload } = useLoaded(load);
  if (error) return <Failed error={error} retry={reload} />;
  if (!value) return <Loading rows={6} />;
  const { actor, runs, waiting } = value;
  const name = actor.name ?? actor.id;
  const tools = grouped(value.tools.filter(isOfApplication), stateOf);
  return (
    <>
      <p className="as-bar" role="status">
        <Icon name="eye" size={18} />
        <span>
          <strong>{t('as.looking', { name })}</strong>{' '}
          {[session.tenant, ...actor.roles].join(' · ')}
          <br />
          <small>
            {t('as.audited', { name, by: session.actor.name ?? session.actor.id ?? '' })}
          </small>
        </span>
      </p>
      <section className="panel">
        <h2>{t('nav.tools')}</h2>
        {tools.size === 0 && <p className="muted">{t('as.noTools')}</p>}
        {STATES.map((state) => (
          <ToolGroups key={state} state={state} tools={tools.get(state) ?? []} actorId={actorId} />
        ))}
      </section>
      <Waiting waiting={waiting} name={name} />
      <Runs runs={runs} />
      <Sections may={value.may} />
    </>
  );
}

const STATES = ['listed', 'later', 'withheld'] as const;

/**
 * Tools of entities come with what a call brings; whatever else is not listed, or cannot be called,
 * is withheld.
 */
function stateOf({ isListed, isCallable }: ViewedTool): (typeof STATES)[number] {
  if (isCallable === false) return 'withheld';
  return isListed ? 'listed' : 'later';
}

/** Leaves out the tools that the framework has and the application has not taken up. */
function isOfApplication({ source, isListed }: ViewedTool): boolean {
  return isListed || source !== 'toolloop';
}

interface ToolGroupsProps {
  readonly tools: readonly ViewedTool[];
  readonly state: (typeof STATES)[number];
  readonly actorId: string;
}

function ToolGroups({ tools, state, actorId }: ToolGroupsProps): ReactNode {
  const { t } = useConsole().words;
  if (tools.length === 0) return null;
  return (
    <div className="as-part">
      <h3>
        {state === 'withheld' && <Icon name="lock" size={15} />}{' '}
        {t(`as.${state}`, { n: tools.length })}
      </h3>
      {[...grouped(tools, ({ declaredId }) => spaceOf(declaredId))].map(([space, members]) => (
        <details key={space} className="as-group" open={members.length <= MOST_OPEN}>
          <summary>
            <h4>{nameOf(space)}</h4> <span className="muted small">{members.length}</span>
          </summary>
          <ul>
            {members.map((tool) => (
              <ToolRow key={tool.declaredId} tool={tool} actorId={actorId} />
            ))}
          </ul>
        </details>
      ))}
    </div>
  );
}

const MOST_OPEN = 12;

function ToolRow({
  tool,
  actorId,
}: {
  readonly tool: ViewedTool;
  readonly actorId: string;
}): ReactNode {
  const { t } = useConsole().words;
  const { declaredId, presentation, isCallable, reasons } = tool;
  const asked = isCallable === false ? reasons.filter(({ holds }) => !holds) : reasons;
  const decisive = asked.find(({ decision }) => decision) ?? asked.at(-1);
  return (
    <li className={isCallable === false ? 'as-tool withheld' : 'as-tool'}>
      <Icon
        name={isCallable === false ? 'lock' : isCallable === 'asks' ? 'wait' : 'check'}
        size={16}
      />
      <span className="row-words">
        <span>
          <strong>{nameOf(declaredId, presentation)}</strong>{' '}
          <span className="code muted small">{declaredId}</span>
        </span>
        {decisive && (
          <small className="muted">
            <span className="code">{decisive.decision?.rule ?? decisive.by}</span> ·{' '}
            {decisive.decision?.reason ?? decisive.reason}
          </small>
        )}
      </span>
      <a
        className="small"
        href={hrefOf('why', declaredId, 'as', actorId)}
        aria-label={`${t('nav.why')}: ${declaredId}`}
      >
        {t('nav.why')}
      </a>
    </li>
  );
}

function Waiting({
  waiting,
  name,
}: Pick<ViewedActor, 'waiting'> & { readonly name: string }): ReactNode {
  const { words } = useConsole();
  const { t } = words;
  return (
    <section className="panel">
      <h2>{t('nav.inbox')}</h2>
      {waiting.length === 0 && <p className="muted">{t('as.nothingWaits')}</p>}
      <ul>
        {waiting.map((entry) => (
          <li key={entry.id} className="as-tool">
            <Icon name={entry.mayAnswer ? 'inbox' : 'lock'} size={16} />
            <span className="row-words">
              <strong>{sentenceOf(entry, words)}</strong>
              <small className="muted">
                {t(entry.mayAnswer ? 'as.mayAnswer' : 'as.mayNotAnswer', { name })} ·{' '}
                {words.ago(entry.request.expiresAt)}
              </small>
            </span>
          </li>
        ))}
      </ul>
    </section>
  );
}

function Runs({ runs }: Pick<ViewedActor, 'runs'>): ReactNode {
  const { words, session } = useConsole();
  const { t } = words;
  const mayOpen = session.may.includes('runs');
  return (
    <section className="panel">
      <h2>{t('nav.runs')}</h2>
      {runs.length === 0 && <p className="muted">{t('runs.empty')}</p>}
      <ul>
        {runs.map(({ runId, status, finishReason, createdAt }) => (
          <li key={runId} className="as-tool">
            <Icon name="runs" size={16} />
            <span className="row-words">
              <strong>{t(finishReason ? `finish.${finishReason}` : `status.${status}`)}</strong>
              <small className="muted">
                <span className="code">{runId.slice(0, 8)}</span> · {words.ago(createdAt)}
              </small>
            </span>
            {mayOpen && (
              <a className="small" href={hrefOf('runs', runId)}>
                {t('as.open')}
              </a>
            )}
          </li>
        ))}
      </ul>
    </section>
  );
}

const ACTIONS = [
  'explain',
  'policy',
  'killSwitch',
  'replay',
  'sources',
  'runs',
  'undo',
  'usage',
  'audit',
  'viewAs',
] as const;

/** The actions of operators: a lock names the permission. */
function Sections({ may }: Pick<ViewedActor, 'may'>): ReactNode {
  const { t } = useConsole().words;
  return (
    <section className="panel">
      <h2>{t('as.actions')}</h2>
      <ul className="chips">
        {ACTIONS.map((action) => (
          <li key={action} className={may.includes(action) ? 'chip effect-read_only' : 'chip'}>
            <Icon name={may.includes(action) ? 'check' : 'lock'} size={13} />{' '}
            <span className="code">{action}</span>
          </li>
        ))}
      </ul>
    </section>
  );
}
