import { type ReactNode, useCallback, useEffect, useRef, useState } from 'react';
import type {
  ComparedCall,
  RehearsalChoices,
  RehearsedRun,
  ToolLoopClient,
} from '@toolloop/client';
import { DecisionChip } from '../parts/decision-chip.js';
import { useLoaded } from '../parts/loaded.js';
import { nameOf } from '../parts/names.js';
import { Problem } from '../parts/states.js';
import { useConsole } from '../shell/console-context.js';
import { go, hrefOf } from '../shell/route.js';

interface RehearseProps {
  readonly runId: string;
  readonly conversationId: string | undefined;
  readonly onClose: () => void;
}

/** The model and the policy that are chosen, by their names; empty for those there are. */
interface Terms {
  readonly model: string;
  readonly policy: string;
}

const AS_IS: Terms = { model: '', policy: '' };

/**
 * A rehearsal of the question as it is, or for operators of the whole run with another model or
 * policy, whose decisions then stand beside the recorded ones.
 */
export function Rehearse({ runId, conversationId, onClose }: RehearseProps): ReactNode {
  const { client, words, announce } = useConsole();
  const { t } = words;
  const [question, setQuestion] = useState('');
  const { isBusy, problem, begin, forget } = useWork();
  const { terms, choose, rehearsed, rehearse } = useComparison(runId);
  const isAsIs = terms.model === '' && terms.policy === '';
  const ask = async (): Promise<void> => {
    go('runs', (await client.start({ message: question, rehearse: true })).runId);
    announce(t('run.rehearseDone'));
    onClose();
  };
  const chooseAnew = (next: Terms): void => {
    forget();
    choose(next);
  };
  return (
    <dialog
      className={rehearsed ? 'confirm wide' : 'confirm'}
      ref={(element) => void (element && !element.open && element.showModal())}
      onClose={onClose}
      aria-label={t('run.rehearse')}
    >
      <h2>{t('run.rehearse')}</h2>
      <p>{t(isAsIs ? 'run.rehearseLead' : 'run.rehearseWithLead')}</p>
      <Choices terms={terms} choose={chooseAnew} />
      {isAsIs && <Question {...{ conversationId, question, setQuestion, runId }} />}
      {rehearsed && <Comparison rehearsed={rehearsed} />}
      {isBusy && rehearsed?.isOver !== false && <p role="status">{t('run.rehearseAsking')}</p>}
      <Problem text={problem} />
      <div className="actions">
        <button
          type="button"
          className="button primary"
          disabled={isBusy || (isAsIs && question.trim() === '')}
          onClick={() => begin(isAsIs ? ask() : rehearse())}
        >
          {t('run.rehearseNow')}
        </button>
        <button type="button" className="button" onClick={onClose}>
          {t(rehearsed ? 'dialog.close' : 'dialog.keep')}
        </button>
      </div>
    </dialog>
  );
}

/** What is under way, or why it failed. */
interface Work {
  readonly isBusy: boolean;
  readonly problem?: string;
  readonly begin: (asked: Promise<void>) => void;
  /** What is under way then says nothing any more: it is about terms that were left. */
  readonly forget: () => void;
}

/**
 * A rehearsal begins once, however often its button is pressed: a policy may take long to answer,
 * and each question as it is makes a run.
 */
function useWork(): Work {
  const [{ asked, problem }, setWork] = useState<{
    readonly asked?: Promise<void>;
    readonly problem?: string;
  }>({});
  const begin = (work: Promise<void>): void => {
    const end = (ended: { readonly problem?: string }): void =>
      setWork((now) => (now.asked === work ? ended : now));
    setWork({ asked: work });
    work.then(
      () => end({}),
      (error: unknown) => end({ problem: error instanceof Error ? error.message : String(error) }),
    );
  };
  return {
    isBusy: asked !== undefined,
    ...(problem !== undefined && { problem }),
    begin,
    forget: () => setWork({}),
  };
}

interface ChosenComparison {
  readonly terms: Terms;
  readonly choose: (terms: Terms) => void;
  /** Absent until these terms are rehearsed. */
  readonly rehearsed: RehearsedRun | undefined;
  readonly rehearse: () => Promise<void>;
}

/**
 * The terms that are chosen, and what a rehearsal with them has brought so far. Other terms, or
 * leaving, end the reading of one that is under way.
 */
function useComparison(runId: string): ChosenComparison {
  const { client } = useConsole();
  const [terms, setTerms] = useState(AS_IS);
  const [rehearsed, setRehearsed] = useState<RehearsedRun>();
  const reading = useRef(new AbortController());
  useEffect(() => () => reading.current.abort(), []);
  const choose = (next: Terms): void => {
    reading.current.abort();
    setTerms(next);
    setRehearsed(undefined);
  };
  const rehearse = (): Promise<void> => {
    reading.current = new AbortController();
    const { signal } = reading.current;
    return compare(client, { runId, terms, signal }, (one) =>
      signal.aborted ? undefined : setRehearsed(one),
    );
  };
  return { terms, choose, rehearsed, rehearse };
}

interface Comparing {
  readonly runId: string;
  readonly terms: Terms;
  readonly signal: AbortSignal;
}

/** Rehearses, and shows the comparison each time that the other model has had a call decided. */
async function compare(
  client: ToolLoopClient,
  { runId, terms, signal }: Comparing,
  show: (rehearsed: RehearsedRun) => void,
): Promise<void> {
  const policy = terms.policy === '' ? undefined : terms.policy;
  const begun = await client.request('POST /runs/:runId/rehearse', {
    runId,
    ...(terms.model !== '' && { model: terms.model }),
    ...(policy !== undefined && { policy }),
  });
  const { rehearsedBy } = begun;
  show(begun);
  if (begun.isOver || rehearsedBy === undefined || signal.aborted) return;
  const look = (): Promise<RehearsedRun> =>
    client.request('GET /runs/:runId/rehearsal', { runId: rehearsedBy, policy });
  for await (const { type } of client.events(rehearsedBy, { signal }))
    if (type === 'step-end') show({ ...(await look()), isOver: false });
  show(await look());
}

/**
 * The models and policies that the application has for it. Only those who may rehearse with them
 * are asked to choose.
 */
function Choices({
  terms,
  choose,
}: {
  readonly terms: Terms;
  readonly choose: (terms: Terms) => void;
}): ReactNode {
  const { client, words, session } = useConsole();
  const { t } = words;
  const may = session.may.includes('replay');
  const load = useCallback(
    () => (may ? client.request('GET /rehearsals', {}) : Promise.resolve(NO_CHOICES)),
    [client, may],
  );
  const { value: { models, policies } = NO_CHOICES } = useLoaded(load);
  return (
    <>
      <Choice
        label={t('run.rehearseModel')}
        names={models}
        name={terms.model}
        choose={(model) => choose({ ...terms, model })}
      />
      <Choice
        label={t('run.rehearsePolicy')}
        names={policies}
        name={terms.policy}
        choose={(policy) => choose({ ...terms, policy })}
      />
    </>
  );
}

const NO_CHOICES: RehearsalChoices = { models: [], policies: [] };

interface ChoiceProps {
  readonly label: string;
  readonly names: readonly string[];
  readonly name: string;
  readonly choose: (name: string) => void;
}

function Choice({ label, names, name, choose }: ChoiceProps): ReactNode {
  const { t } = useConsole().words;
  if (names.length === 0) return undefined;
  return (
    <label className="field">
      <span>{label}</span>
      <select value={name} onChange={({ target }) => choose(target.value)}>
        <option value="">{t('run.rehearseAsIs')}</option>
        {names.map((one) => (
          <option key={one}>{one}</option>
        ))}
      </select>
    </label>
  );
}

/** The decisions that were recorded beside those of the rehearsal. */
function Comparison({ rehearsed }: { readonly rehearsed: RehearsedRun }): ReactNode {
  const { calls, isOver, rehearsedBy, finishReason = 'stop' } = rehearsed;
  const { t } = useConsole().words;
  const flips = calls.filter(({ flipped }) => flipped).length;
  return (
    <section className="compared" aria-label={t('run.rehearseCompared')}>
      <p role="status">
        {isOver ? <strong>{t('replay.changed', { n: flips })}</strong> : t('run.rehearseRunning')}{' '}
        {rehearsedBy !== undefined && (
          <a href={hrefOf('runs', rehearsedBy)}>{t('run.rehearseOpen')}</a>
        )}
      </p>
      {finishReason !== 'stop' && (
        <p className="problem" role="alert">
          {t('run.rehearseUnfinished', { end: t(`finish.${finishReason}`) })}
        </p>
      )}
      {calls.length > 0 && (
        <div
          className="table-frame"
          tabIndex={0}
          role="group"
          aria-label={t('run.rehearseCompared')}
        >
          <table>
            <thead>
              <tr>
                <th scope="col">{t('run.rehearseStep')}</th>
                <th scope="col">{t('run.rehearseCall')}</th>
                <th scope="col">{t('run.rehearseRecorded')}</th>
                <th scope="col">{t('run.rehearseCandidate')}</th>
              </tr>
            </thead>
            <tbody>
              {calls.slice(0, MOST_ROWS).map((call, index) => (
                <Row key={index} call={call} />
              ))}
            </tbody>
          </table>
        </div>
      )}
      {calls.length > MOST_ROWS && (
        <p className="muted">{t('run.rehearseMore', { n: calls.length - MOST_ROWS })}</p>
      )}
    </section>
  );
}

/** A page never has more rows than this. */
const MOST_ROWS = 100;

function Row({
  call: { step, declaredId, recorded, candidate, flipped, why },
}: {
  readonly call: ComparedCall;
}): ReactNode {
  const { t } = useConsole().words;
  return (
    <tr className={flipped ? 'flipped' : undefined}>
      <td className="figure">{step}</td>
      <th scope="row">
        {nameOf(declaredId)}{' '}
        {flipped && <span className="chip caution">{t('run.rehearseFlipped')}</span>}
      </th>
      <td>
        {recorded ? (
          <DecisionChip decision={recorded} />
        ) : (
          <span className="muted">{t('rehearsed.not_made')}</span>
        )}
      </td>
      <td>
        {candidate ? (
          <DecisionChip decision={candidate} />
        ) : (
          <span className="muted">{t(`rehearsed.${why ?? 'not_made'}`)}</span>
        )}
      </td>
    </tr>
  );
}

interface QuestionProps {
  readonly runId: string;
  readonly conversationId: string | undefined;
  readonly question: string;
  readonly setQuestion: (question: string) => void;
}

/**
 * The question to rehearse: that of the run where the page or its conversation has it, and
 * otherwise what is typed.
 */
function Question({ runId, conversationId, question, setQuestion }: QuestionProps): ReactNode {
  const { client, thread, words } = useConsole();
  const load = useCallback(async () => {
    const turn = thread.snapshot().turns.find(({ run }) => run.runId === runId);
    if (turn || conversationId === undefined) return turn ? [turn.question] : [];
    const { entries } = await client.conversation(conversationId);
    return entries.flatMap(({ role, text }) => (role === 'user' ? [text] : [])).toReversed();
  }, [client, thread, runId, conversationId]);
  const { value: known } = useLoaded(load);
  const first = known?.[0];
  useEffect(() => {
    if (first !== undefined) setQuestion(first);
  }, [first, setQuestion]);
  return (
    <>
      {known && known.length > 1 && (
        <label className="field">
          <span>{words.t('run.rehearseAsked')}</span>
          <select onChange={({ target }) => setQuestion(target.value)}>
            {known.map((text, index) => (
              <option key={index}>{text}</option>
            ))}
          </select>
        </label>
      )}
      <label className="field">
        <span>{words.t('run.rehearseQuestion')}</span>
        <textarea
          rows={3}
          maxLength={8000}
          value={question}
          onChange={({ target }) => setQuestion(target.value)}
        />
      </label>
    </>
  );
}
