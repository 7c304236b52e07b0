/**
 * Media types by the extension of a file's name: those of the web, the registered ones where there are any.
 */
import { extname } from 'node:path';
import { BYTES_TYPE } from '../response.ts';

const UTF8 = '; charset=utf-8';

/** Text is UTF-8, and says so: without a charset some clients guess. XML and JSON say it themselves. */
const TYPES: Readonly<Record<string, string>> = {
  '.html': `text/html${UTF8}`, '.htm': `text/html${UTF8}`, '.txt': `text/plain${UTF8}`, '.log': `text/plain${UTF8}`, '.md': `text/markdown${UTF8}`,
  '.css': `text/css${UTF8}`, '.csv': `text/csv${UTF8}`, '.ics': `text/calendar${UTF8}`, '.vcf': `text/vcard${UTF8}`, '.vtt': `text/vtt${UTF8}`,
  '.js': `text/javascript${UTF8}`, '.mjs': `text/javascript${UTF8}`, '.cjs': `text/javascript${UTF8}`,
  '.json': 'application/json', '.map': 'application/json', '.jsonld': 'application/ld+json', '.geojson': 'application/geo+json', '.ndjson': 'application/x-ndjson',
  '.webmanifest': 'application/manifest+json', '.yaml': 'application/yaml', '.yml': 'application/yaml',
  '.xml': 'application/xml', '.xhtml': 'application/xhtml+xml', '.rss': 'application/rss+xml', '.atom': 'application/atom+xml', '.svg': 'image/svg+xml',
  '.wasm': 'application/wasm', '.pdf': 'application/pdf', '.rtf': 'application/rtf', '.epub': 'application/epub+zip',
  '.zip': 'application/zip', '.gz': 'application/gzip', '.br': BYTES_TYPE, '.zst': 'application/zstd', '.tar': 'application/x-tar', '.7z': 'application/x-7z-compressed',
  '.docx': 'application/vnd.openxmlformats-officedocument.wordprocessingml.document', '.odt': 'application/vnd.oasis.opendocument.text',
  '.xlsx': 'application/vnd.openxmlformats-officedocument.spreadsheetml.sheet', '.ods': 'application/vnd.oasis.opendocument.spreadsheet',
  '.pptx': 'application/vnd.openxmlformats-officedocument.presentationml.presentation', '.odp': 'application/vnd.oasis.opendocument.presentation',
  '.png': 'image/png', '.apng': 'image/apng', '.jpg': 'image/jpeg', '.jpeg': 'image/jpeg', '.gif': 'image/gif', '.webp': 'image/webp', '.avif': 'image/avif',
  '.ico': 'image/vnd.microsoft.icon', '.bmp': 'image/bmp', '.tif': 'image/tiff', '.tiff': 'image/tiff', '.heic': 'image/heic', '.jxl': 'image/jxl',
  '.woff': 'font/woff', '.woff2': 'font/woff2', '.ttf': 'font/ttf', '.otf': 'font/otf',
  '.mp3': 'audio/mpeg', '.ogg': 'audio/ogg', '.oga': 'audio/ogg', '.opus': 'audio/ogg', '.wav': 'audio/wav', '.flac': 'audio/flac', '.aac': 'audio/aac', '.m4a': 'audio/mp4', '.weba': 'audio/webm',
  '.mp4': 'video/mp4', '.m4v': 'video/mp4', '.webm': 'video/webm', '.ogv': 'video/ogg', '.mov': 'video/quicktime', '.mpeg': 'video/mpeg',
  '.m3u8': 'application/vnd.apple.mpegurl', '.ts': 'video/mp2t', '.mpd': 'application/dash+xml',
};

/** The media type that a file name suggests, whatever the case of its extension; `application/octet-stream` for an unknown one. */
export function mediaTypeOf(path: string): string {
  const extension = extname(path).toLowerCase();
  return Object.hasOwn(TYPES, extension) ? TYPES[extension]! : BYTES_TYPE;
}
