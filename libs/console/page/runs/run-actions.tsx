import { type ReactNode, useState } from 'react';
import type { Run, Undoing } from '@toolloop/client';
import type { CallPart, RunView } from '@toolloop/react';
import { Icon } from '../parts/icon.js';
import { nameOf } from '../parts/names.js';
import { Problem } from '../parts/states.js';
import { useVerdict } from '../parts/verdict.js';
import { useConsole } from '../shell/console-context.js';
import { go } from '../shell/route.js';
import type { WordKey } from '../words/words.js';
import { Rehearse } from './rehearse.js';

type Asked = 'cancel' | 'fork' | 'undo' | 'rehearse' | 'keep';

interface RunActionsProps {
  readonly run: Run;
  readonly view: RunView;
  readonly conversationId: string | undefined;
}

/**
 * What can be done with a run: end it, continue from one of its steps, rehearse its question again,
 * undo it, each of which asks once more; and make a test or a case of it.
 */
export function RunActions({ run, view, conversationId }: RunActionsProps): ReactNode {
  const { words } = useConsole();
  const { t } = words;
  const [asked, setAsked] = useState<Asked>();
  const isOver = run.status === 'ended' || view.status === 'ended';
  return (
    <div className="run-acts">
      {!isOver && (
        <button type="button" className="button" onClick={() => setAsked('cancel')}>
          <Icon name="stop" size={16} /> {t('run.cancel')}
        </button>
      )}
      {run.durable && (
        <button type="button" className="button" onClick={() => setAsked('fork')}>
          <Icon name="fork" size={16} /> {t('run.fork')}
        </button>
      )}
      {run.durable && (
        <button type="button" className="button" onClick={() => setAsked('rehearse')}>
          <Icon name="play" size={16} /> {t('run.rehearse')}
        </button>
      )}
      {isOver && run.durable && (
        <button type="button" className="button" onClick={() => setAsked('undo')}>
          <Icon name="undo" size={16} /> {t('run.undo')}
        </button>
      )}
      {isOver && run.durable && (
        <button type="button" className="button" onClick={() => setAsked('keep')}>
          <Icon name="check" size={16} /> {t('run.keep')}
        </button>
      )}
      {asked === 'keep' && <Keep runId={run.runId} onClose={() => setAsked(undefined)} />}
      {asked === 'rehearse' && (
        <Rehearse
          runId={run.runId}
          conversationId={conversationId}
          onClose={() => setAsked(undefined)}
        />
      )}
      {asked && asked !== 'keep' && asked !== 'rehearse' && (
        <Confirm key={asked} {...{ asked, run, view }} onClose={() => setAsked(undefined)} />
      )}
    </div>
  );
}

interface ConfirmProps extends Omit<RunActionsProps, 'conversationId'> {
  readonly asked: Exclude<Asked, 'keep' | 'rehearse'>;
  readonly onClose: () => void;
}

function Confirm({ asked, run: { runId }, view, onClose }: ConfirmProps): ReactNode {
  const { client, words, announce } = useConsole();
  const { t } = words;
  const [step, setStep] = useState(view.step);
  const [problem, setProblem] = useState<string>();
  const [undoing, setUndoing] = useState<Undoing>();
  const act = async (): Promise<void> => {
    if (asked === 'cancel') await client.cancel(runId);
    if (asked === 'fork') go('runs', (await client.fork(runId, step)).runId);
    if (asked === 'undo') return setUndoing(await client.undo(runId));
    announce(t(`run.${asked}Done`));
    onClose();
  };
  return (
    <dialog
      className="confirm"
      ref={(element) => void (element && !element.open && element.showModal())}
      onClose={onClose}
      aria-label={t(`run.${asked}`)}
    >
      <h2>{t(`run.${asked}`)}</h2>
      <p>{t(`run.${asked}Lead`)}</p>
      {asked === 'fork' && <ForkStep {...{ view, step, setStep }} />}
      {undoing && <Undone undoing={undoing} />}
      <Problem text={problem} />
      <div className="actions">
        {!undoing && (
          <button
            type="button"
            className="button primary"
            onClick={() => void act().catch((error: unknown) => setProblem(messageOf(error)))}
          >
            {t(`run.${asked}Now`)}
          </button>
        )}
        <button type="button" className="button" onClick={onClose}>
          {t(undoing ? 'dialog.close' : 'dialog.keep')}
        </button>
      </div>
    </dialog>
  );
}

/**
 * The commands that make files of a run. They are for the machine of a developer, where the files
 * belong: a browser has no repository.
 */
function keptBy(
  runId: string,
  who: string,
  why: string | undefined,
): readonly (readonly [name: WordKey, command: string])[] {
  const said = why === undefined ? '' : ` --why ${shellText(why)}`;
  return [
    ['run.keepTest', `npx toolloop runs test ${runId} --out test/runs ${who}`],
    ['run.keepCase', `npx toolloop runs case ${runId} --to evals/cases.json ${who}`],
    [
      'run.keepWrong',
      `npx toolloop runs case ${runId} --to evals/cases.json --verdict wrong${said} ${who}`,
    ],
  ];
}

/** A text as one word of a shell. */
function shellText(text: string): string {
  return /^[\w@.:/-]+$/.test(text) ? text : `'${text.replaceAll("'", String.raw`'\''`)}'`;
}

function Keep({
  runId,
  onClose,
}: {
  readonly runId: string;
  readonly onClose: () => void;
}): ReactNode {
  const { words, announce, session } = useConsole();
  const { t } = words;
  const verdict = useVerdict();
  const who = `--app dist/app.module.js --actor ${shellText(session.actor.id ?? '')} --tenant ${shellText(session.tenant)}`;
  const commands = keptBy(runId, who, verdict?.verdict === 'wrong' ? verdict.why : undefined);
  const copy = (command: string): void =>
    void navigator.clipboard.writeText(command).then(() => announce(t('run.keepCopied')));
  return (
    <dialog
      className="confirm"
      ref={(element) => void (element && !element.open && element.showModal())}
      onClose={onClose}
      aria-label={t('run.keep')}
    >
      <h2>{t('run.keep')}</h2>
      <p>{t('run.keepLead')}</p>
      <ul className="plain">
        {commands.map(([name, command]) => (
          <li key={name}>
            <button type="button" className="button" onClick={() => copy(command)}>
              {t(name)}
            </button>
            <p>
              <code className="code">{command}</code>
            </p>
          </li>
        ))}
      </ul>
      <div className="actions">
        <button type="button" className="button" onClick={onClose}>
          {t('dialog.close')}
        </button>
      </div>
    </dialog>
  );
}

interface ForkStepProps {
  readonly view: RunView;
  readonly step: number;
  readonly setStep: (step: number) => void;
}

/**
 * The step from which to continue, with the effects that took place up to it and are not repeated.
 */
function ForkStep({ view, step, setStep }: ForkStepProps): ReactNode {
  const { words } = useConsole();
  const kept = view.parts.filter(
    (part): part is CallPart =>
      part.kind === 'call' && part.step <= step && part.record?.status === 'succeeded',
  );
  const effects = kept.filter(({ effect }) => effect !== 'read_only');
  return (
    <>
      <label className="field">
        <span>{words.t('run.forkStep')}</span>
        <input
          type="number"
          min={0}
          max={view.step}
          value={step}
          onChange={({ target }) => setStep(Number(target.value))}
        />
      </label>
      <p className="muted">{words.t('run.forkEffects', { n: effects.length })}</p>
      <ul className="plain">
        {effects.map(({ since, tool, presentation }) => (
          <li key={since}>{nameOf(tool, presentation)}</li>
        ))}
      </ul>
    </>
  );
}

function Undone({ undoing: { calls } }: { readonly undoing: Undoing }): ReactNode {
  const { words } = useConsole();
  if (calls.length === 0) return <p>{words.t('run.undoNothing')}</p>;
  return (
    <ul className="plain">
      {calls.map(({ toolCallId, declaredId, status, reason }) => (
        <li key={toolCallId}>
          <strong>{nameOf(declaredId)}</strong>: {words.t(`undo.${status}`)}
          {reason === undefined ? '' : ` (${reason})`}
        </li>
      ))}
    </ul>
  );
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
