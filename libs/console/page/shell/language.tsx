import { type ReactNode, useCallback, useEffect, useState } from 'react';
import { Words, wordsOf } from '../words/words.js';
import { allowLoad } from './scripts.js';
import { useSettings } from './settings.js';

/** The language of the page. */
export interface Language {
  /** The words that are shown: those before until the chosen ones are there. */
  readonly words: Words;
  /** True if the chosen words could not be fetched. */
  readonly isLost: boolean;
  /** Fetches the chosen words again. */
  readonly retry: () => void;
}

/** Fetches the words of the language that the person has chosen. */
export function useLanguage(): Language {
  const { language } = useSettings();
  const [words, setWords] = useState(() => new Words('en'));
  const [isLost, setLost] = useState(false);
  const [tries, setTries] = useState(0);
  useEffect(() => {
    let isWanted = true;
    const end = (lost: boolean, fetched?: Words): void => {
      if (!isWanted) return; // another language was chosen meanwhile
      setLost(lost);
      if (fetched) setWords(fetched);
    };
    wordsOf(language).then(
      (fetched) => end(false, fetched),
      () => end(true),
    );
    return () => {
      isWanted = false;
    };
  }, [language, tries]);
  useEffect(() => {
    // a screen reader speaks the words that are there
    document.documentElement.lang = isLost ? words.language : language;
  }, [words, isLost, language]);
  const retry = useCallback(() => {
    allowLoad();
    setTries((count) => count + 1);
  }, []);
  return { words, isLost, retry };
}

/** The sentence that the chosen words are missing, above a page that is otherwise whole. */
export function LostWords({ words: { t }, isLost, retry }: Language): ReactNode {
  if (!isLost) return null;
  return (
    <aside className="lost-words" role="alert">
      <span>{t('state.unfetchedWords')}.</span>
      <button type="button" className="button" onClick={retry}>
        {t('state.retry')}
      </button>
    </aside>
  );
}
