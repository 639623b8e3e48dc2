// web-client.mjs: requests to the web pages as nobody's browser would send them.
import http from 'node:http';
import net from 'node:net';

export function ask(port, path, { method = 'GET', headers = {}, body } = {}) {
    return new Promise((resolve, reject) => {
        const request = http.request({ host: '127.0.0.1', port, path, method, headers: { host: `127.0.0.1:${port}`, ...headers }, setHost: false }, response => {
            let text = '';
            response.setEncoding('utf8').on('data', part => { text += part; });
            response.on('error', reject);
            response.on('end', () => resolve({ status: response.statusCode, headers: response.headers, text }));
        });
        request.on('error', reject);
        request.end(body);
    });
}

// Bytes as they are, and what comes back until the peer closes.
export function raw(port, head) {
    return new Promise(resolve => {
        const socket = net.connect(port, '127.0.0.1', () => socket.write(head));
        let text = '';
        socket.setEncoding('latin1').on('data', part => { text += part; });
        socket.on('error', () => {});
        socket.on('close', () => resolve(text));
    });
}

// What a page of ours sends along.
export const own = port => ({ origin: `http://127.0.0.1:${port}`, 'content-type': 'application/json' });
