/**
 * Writes characters that are not seen as escapes, such as `\u{202e}`, so that their reader sees
 * that they are there.
 */
export function visible(text: string): string {
  return text.replace(
    UNSEEN,
    (character, joiner?: string) => joiner ?? `\\u{${character.codePointAt(0)?.toString(16)}}`,
  );
}

/**
 * A text as an address can hold it: half a character, which a model or a tool may write, is
 * replaced, since `encodeURIComponent` throws for it.
 */
export function addressable(text: string): string {
  return text.replaceAll(/\p{Cs}/gu, '\ufffd');
}

/**
 * The parts of an emoji that join others to it, which are seen; then controls, and what has no
 * width or changes the direction of what follows.
 */
const UNSEEN =
  /((?<=\p{Extended_Pictographic})\ufe0f|(?<=\p{Extended_Pictographic}[\ufe0f\p{Emoji_Modifier}]?)\u200d(?=\p{Extended_Pictographic}))|(?![\t-\r])[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}]/gu;
